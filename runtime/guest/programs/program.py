"""Programs that callers started directly, by the ids their starters chose, each on three pipes.

Owns the pipes and processes, and the records of their output; does not know callers and the wire. The
supervisor is the parent, so how one ended is known exactly. Pipes, with their content, are part of a
capture. A writer waits for a reader that is far behind; without any reader the record keeps the end of the
output, and the writer does not wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest import adoption
from holdfast.runtime.guest.files import removal
from holdfast.runtime.guest.identity.account import OOM_SCORE, UserAccount, runnable
from holdfast.runtime.guest.process_surroundings import ProcessSurroundings
from holdfast.runtime.guest.pulse.deaths import ProcessEnd
from holdfast.runtime.guest.pulse.origins import processes
from holdfast.runtime.guest.pulse.process_lineage import Origin, short
from holdfast.runtime.guest.records.streamlog import StreamLog
from holdfast.runtime.guest.records.waiters import Waiters

CAPACITY = 64 << 20
SEGMENT = 4 << 20
LAG = 32 << 20
"""Bytes that a reader can be behind before the writer waits for it."""
ABSENCE = 30.0
"""Seconds for which a reader that was cut off is waited for: a capture ends within ten."""
READ_SIZE = 256 << 10
READS_PER_TURN = 16
MAX_RUNNING = 64
KEPT = 100
"""Limit of ended programs whose output can still be read; it takes at most KEPT_OUTPUT."""
KEPT_OUTPUT = 256 << 20


@dataclass(frozen=True, slots=True)
class ProgramOrder:
    """The program to run: arguments, directory, environment, user, and whether it gets input.

    `name` is its starter's name for it; several can have the same.
    """

    id: str
    name: str
    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    account: UserAccount
    actor: str
    takes_input: bool


class Program:
    """One program, running or ended."""

    def __init__(self, order: ProgramOrder, folder: Path) -> None:
        """Start it.

        Raises:
            OSError: it cannot be started.
        """
        self.order = order
        self._loop = asyncio.get_running_loop()
        self.started = self._loop.time()
        self.end: ProcessEnd | None = None
        self.duration: float | None = None
        self.killed_by: str | None = None
        """The actor who sent it a signal."""
        self.accepted = 0
        """Bytes of input that it was given."""
        self._changed = Waiters()
        self._writing = asyncio.Lock()
        self._process = self._start(folder)

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @property
    def over(self) -> bool:
        """True if it has ended."""
        return self.end is not None

    def _start(self, folder: Path) -> subprocess.Popen[bytes]:
        order, pipes = self.order, [os.pipe2(os.O_CLOEXEC) for _ in range(2)]
        try:
            process = subprocess.Popen(
                runnable(order.argv),
                stdin=subprocess.PIPE if order.takes_input else subprocess.DEVNULL,
                stdout=pipes[0][1],
                stderr=pipes[1][1],
                cwd=order.cwd,
                env=dict(order.env),
                start_new_session=True,
                preexec_fn=self._in_child,
            )
        except BaseException:
            for reading, _ in pipes:
                os.close(reading)
            raise
        finally:
            for _, writing in pipes:
                os.close(writing)
        self.streams = {
            name: RecordedPipe(reading, folder / name, self._changed.wake)
            for name, (reading, _) in zip(("stdout", "stderr"), pipes, strict=True)
        }
        self._input = process.stdin.fileno() if process.stdin is not None else None
        if self._input is not None:
            os.set_blocking(self._input, False)
        return process

    def _in_child(self) -> None:
        # Python ignores these two, and ignored signals stay ignored in what is started.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
        self.order.account.become()

    async def changed(self) -> None:
        """Wait until it has written output or ended."""
        await self._changed.wait()

    async def write(self, data: bytes, offset: int) -> bool:
        """Send it input from an offset, skipping what it already has. Return false if it accepts no more.

        Raises:
            ValueError: earlier bytes are missing.
        """
        async with self._writing:
            if offset > self.accepted:
                raise ValueError(f"its input continues at {self.accepted}, not at {offset}")
            data = data[self.accepted - offset :]
            while data and self._input is not None:
                try:
                    count = os.write(self._input, data)
                except BlockingIOError:
                    await self._writable(self._input)
                    continue
                except OSError:
                    self._close_input()
                    return False
                self.accepted += count
                data = data[count:]
        return self._input is not None

    async def close_input(self) -> None:
        """Close its input."""
        async with self._writing:
            self._close_input()

    async def _writable(self, descriptor: int) -> None:
        ready = self._loop.create_future()
        self._loop.add_writer(descriptor, _resolve, ready)
        try:
            await ready
        finally:
            self._loop.remove_writer(descriptor)

    def _close_input(self) -> None:
        if self._process.stdin is not None and self._input is not None:
            self._input = None
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def ended(self) -> None:
        """Record its end, with its output until then."""
        code = self._process.wait()
        for stream in self.streams.values():
            stream.drain()
            stream.end = stream.log.end
        self.end = ProcessEnd.of_returncode(code)
        self.duration = self._loop.time() - self.started
        self._close_input_soon()
        self._changed.wake()

    def _close_input_soon(self) -> None:
        if not self._writing.locked():
            self._close_input()

    def close(self) -> None:
        """Close its pipes."""
        self._close_input()
        for stream in self.streams.values():
            stream.close()

    def remove(self) -> None:
        """Remove its records."""
        self.close()
        for stream in self.streams.values():
            stream.log.remove()

    def as_dict(self) -> dict[str, Any]:
        """Return its description, for the wire."""
        end = self.end
        return {
            "id": self.order.id,
            "name": self.order.name,
            "argv": [str(word)[:1000] for word in self.order.argv[:100]],
            "cwd": self.order.cwd,
            "user": self.order.account.name,
            "actor": self.order.actor,
            "pid": self.pid,
            "state": "running" if end is None else "exited",
            "exit_code": end and end.exit_code,
            "signal": end and end.signal,
            "killed_by": self.killed_by,
            "accepted": self.accepted,
            "stdout": self.streams["stdout"].log.end,
            "stderr": self.streams["stderr"].log.end,
            "duration": round(
                self._loop.time() - self.started if self.duration is None else self.duration, 6
            ),
        }


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class RecordedPipe:
    """One stream of a program."""

    def __init__(self, descriptor: int, folder: Path, wake: Callable[[], None]) -> None:
        """Record from now on; `wake` is called after each piece."""
        self.log = StreamLog(folder, CAPACITY, SEGMENT)
        self.end: int | None = None
        """The offset at which the program had ended; the processes it left behind can write more."""
        self._descriptor: int | None = descriptor
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._reading = False
        self._readers: dict[object, tuple[int, float | None]] = {}
        self._later: asyncio.TimerHandle | None = None
        os.set_blocking(descriptor, False)
        self._flow()

    def hold(self, reader: object, position: int) -> None:
        """Note a reader's position: the writer cannot run ahead of it."""
        self._readers[reader] = (position, None)
        self._flow()

    def release(self, reader: object, *, finished: bool) -> None:
        """Note that a reader left; one that has not finished is expected back for a while."""
        position, _ = self._readers.pop(reader, (0, None))
        if not finished:
            self._readers[reader] = (position, self._loop.time() + ABSENCE)
        self._flow()

    def drain(self) -> None:
        """Record the pipe's present content, however far behind a reader is; a pipe holds at most 1 MiB."""
        for _ in range(READS_PER_TURN):
            if self._descriptor is None or not self._take():
                return

    def close(self) -> None:
        """Record no more."""
        self._stop()
        if self._later is not None:
            self._later.cancel()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self.log.rest()

    def _flow(self) -> None:
        """Read, or let the writer wait."""
        now = self._loop.time()
        gone = [each for each, (_, until) in self._readers.items() if until is not None and until < now]
        for each in gone:
            del self._readers[each]
        slowest = min((position for position, _ in self._readers.values()), default=None)
        if slowest is not None and self.log.end - slowest > LAG:
            self._stop()
            if self._later is None:
                self._later = self._loop.call_later(ABSENCE / 10, self._again)
        elif self._descriptor is not None and not self._reading:
            self._reading = True
            self._loop.add_reader(self._descriptor, self._turn)

    def _again(self) -> None:
        self._later = None
        self._flow()

    def _turn(self) -> None:
        for _ in range(READS_PER_TURN):
            if not self._take():
                break
        self._flow()

    def _take(self) -> bool:
        assert self._descriptor is not None
        try:
            data = os.read(self._descriptor, READ_SIZE)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        self.log.append(data)
        self._wake()
        return True

    def _stop(self) -> None:
        if self._reading and self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
        self._reading = False


class NotStarted(Exception):
    """The program was not started. The message says why; `code` is for programs."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Programs:
    """The programs, running and ended."""

    def __init__(self, surroundings: ProcessSurroundings) -> None:
        layout, _, self._reaper, self._origins, self._notice = surroundings
        self._folder = layout.state / "programs"
        self._programs: dict[str, Program] = {}
        self._made = 0
        removal.discard(self._folder)

    def known(self, id_: str) -> Program | None:
        """Return the program of that id, if there is one."""
        return self._programs.get(id_)

    def all(self) -> list[Program]:
        """Return all known programs, the oldest first."""
        return list(self._programs.values())

    def start(self, order: ProgramOrder) -> Program:
        """Start a program.

        Raises:
            NotStarted: it was not started; nothing has changed.
        """
        if sum(not each.over for each in self._programs.values()) >= MAX_RUNNING:
            raise NotStarted("limit", f"cannot run: {MAX_RUNNING} programs are running already; end one")
        self._drop_old()
        self._made += 1
        folder, name = self._folder / f"{self._made:06d}", short(order.argv[0])
        try:
            with self._reaper.held():
                program = Program(order, folder)
                self._reaper.watch(program.pid, lambda: self._ended(program))
                self._began(program)
        except FileNotFoundError:
            there = Path(order.cwd).is_dir()
            what = (
                f"run {name}: no such program" if there else f"run {name} in {order.cwd}: no such directory"
            )
            raise NotStarted("invalid", f"cannot {what}") from None
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            from holdfast.runtime.guest.pulse import cgroup_limits  # few sessions need it

            raise NotStarted(
                "invalid", f"cannot run {name}: {cgroup_limits.explain_shortage(error)}"
            ) from None
        return program

    def _began(self, program: Program) -> None:
        order, text = program.order, short(" ".join(program.order.argv))
        self._programs[order.id] = program
        self._origins.own(program.pid, Origin("job", order.id, text, order.actor))
        self._keep(program)
        self._notice("run_started", id=order.id, argv=text, cwd=order.cwd, actor=order.actor, pid=program.pid)

    def keep(self) -> None:
        """Store with the keeper the list of running programs, as after a restore."""
        for program in self._programs.values():
            if not program.over:
                self._keep(program)

    def _keep(self, program: Program) -> None:
        """Tell a new supervisor of a program, which it has to end: the pipes are ours."""
        shown = f"{program.order.id[:12]} ({short(' '.join(program.order.argv))})"
        fields = {"start": adoption.start_of(program.pid), "shown": shown}
        self._reaper.keeper.hold(f"program:{program.order.id}", program.pid, fields)

    def signal(self, program: Program, number: int) -> None:
        """Send a signal to a program and to all that it started."""
        for pid in self._tree(program):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def stop(self) -> None:
        """End them permanently."""
        for program in self._programs.values():
            if not program.over:
                self._reaper.forget(program.pid)
                self.signal(program, signal.SIGHUP)
            program.close()

    def _tree(self, program: Program) -> Iterator[int]:
        """Yield the processes of a program: its session, its descendants, and processes that come from it."""
        family = {program.pid} if not program.over else set()
        table = processes()
        grown = True
        while grown:
            more = {each.pid for each in table if each.session == program.pid or each.parent in family}
            grown = not more <= family
            family |= more
        for each in table:
            origin = self._origins.known(each.pid)
            if each.pid in family or (origin is not None and origin.id == program.order.id):
                yield each.pid

    def _ended(self, program: Program) -> None:
        program.ended()
        self._reaper.keeper.drop(f"program:{program.order.id}")
        self._origins.disown(program.pid)
        self._notice(
            "run_ended",
            program.end,
            id=program.order.id,
            argv=short(" ".join(program.order.argv)),
            actor=program.order.actor,
            pid=program.pid,
            duration=round(program.duration or 0.0, 3),
            **({"killed_by": program.killed_by} if program.killed_by else {}),
        )
        self._origins.look_soon()

    def _drop_old(self) -> None:
        """Make room for one more."""
        over = [each for each in self._programs.values() if each.over]

        def size(program: Program) -> int:
            return sum(stream.log.end - stream.log.start for stream in program.streams.values())

        kept = sum(map(size, over))
        while over and (len(over) >= KEPT or kept > KEPT_OUTPUT):
            oldest = over.pop(0)
            kept -= size(oldest)
            oldest.remove()
            del self._programs[oldest.order.id]
