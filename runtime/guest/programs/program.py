"""One program on three pipes, and the records of what it wrote.

Owns the pipes and the process; knows nothing of callers and the wire. The supervisor is its parent, so how it
ended is known exactly. Pipes, and what is in them, are part of a capture. A writer waits for a reader that is
far behind; without any reader the record keeps the end of what was written, and the writer does not wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest.identity.account import OOM_SCORE, UserAccount, runnable
from holdfast.runtime.guest.pulse.deaths import ProcessEnd
from holdfast.runtime.guest.records.streamlog import StreamLog
from holdfast.runtime.guest.records.waiters import Waiters

CAPACITY = 64 << 20
SEGMENT = 4 << 20
LAG = 32 << 20
"""Bytes that a reader may be behind before the writer waits for it."""
ABSENCE = 30.0
"""Seconds for which a reader that was cut off is waited for: a capture ends within ten."""
READ_SIZE = 256 << 10
READS_PER_TURN = 16


@dataclass(frozen=True, slots=True)
class ProgramOrder:
    """What to run: the arguments, the directory, the environment, as whom, and whether it gets input.

    `name` is what its starter calls it; several may have the same.
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
        """Wait until it wrote something or ended."""
        await self._changed.wait()

    async def write(self, data: bytes, offset: int) -> bool:
        """Give it input from an offset, without what it has already. Return false if it takes no more.

        Raises:
            ValueError: what comes before is missing.
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
        """Let it find the end of its input."""
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
        """Take note of its end; what it wrote until then is recorded."""
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
        """Remove what is kept of it, for good."""
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
        """The offset at which the program had ended; those it left behind may write more."""
        self._descriptor: int | None = descriptor
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._reading = False
        self._readers: dict[object, tuple[int, float | None]] = {}
        self._later: asyncio.TimerHandle | None = None
        os.set_blocking(descriptor, False)
        self._flow()

    def hold(self, reader: object, position: int) -> None:
        """Note how far a reader has come: the writer does not get away from it."""
        self._readers[reader] = (position, None)
        self._flow()

    def release(self, reader: object, *, finished: bool) -> None:
        """Note that a reader left; one that has not finished is expected back for a while."""
        position, _ = self._readers.pop(reader, (0, None))
        if not finished:
            self._readers[reader] = (position, self._loop.time() + ABSENCE)
        self._flow()

    def drain(self) -> None:
        """Record what the pipe holds now, however far behind a reader is; a pipe holds at most 1 MiB."""
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
