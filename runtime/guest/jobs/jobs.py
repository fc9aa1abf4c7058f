"""Commands that run outside the shell, each on its own terminal, and their records.

A job starts in the shell's directory and environment, and is independent of it from then on: it ends when
its command does, and its output, state and exit code remain available. The supervisor is its parent, so how
it ended is known exactly.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest import adoption
from holdfast.runtime.guest.files import removal
from holdfast.runtime.guest.identity.account import OOM_SCORE, UserAccount
from holdfast.runtime.guest.identity.identity import with_identity
from holdfast.runtime.guest.jobs.keeper import HeldRecord
from holdfast.runtime.guest.layout import DEFAULT_COLUMNS, DEFAULT_ROWS
from holdfast.runtime.guest.process_surroundings import ProcessSurroundings
from holdfast.runtime.guest.pulse.deaths import ProcessEnd
from holdfast.runtime.guest.pulse.origins import processes
from holdfast.runtime.guest.pulse.process_lineage import Origin, short
from holdfast.runtime.guest.pulse.state import State
from holdfast.runtime.guest.records.streamlog import StreamLog
from holdfast.runtime.guest.shells.marks import MarkFilter, OutputPiece
from holdfast.runtime.guest.shells.shell_output import OutputGap, T, no_pause, visible
from holdfast.runtime.guest.shells.terminal import ProcessTerminal, TerminalSize
from holdfast.runtime.guest.shells.terminal_watch import JobWatch
from holdfast.runtime.guest.shells.typed import LineLimit

MAX_RUNNING = 32
KEPT = 200
"""Limit of ended jobs that remain available; their output takes at most KEPT_OUTPUT."""
KEPT_OUTPUT = 512 << 20
OUTPUT_CAPACITY = 64 << 20
SEGMENT_SIZE = 1 << 20
KEPT_COMMAND = 1000
"""Characters of a command that are kept, which is all that is ever shown of one."""
DEFAULT_SIZE = TerminalSize(DEFAULT_ROWS, DEFAULT_COLUMNS)
SHORTEST_REF = 3
_SIGNALLED = 128
_OURS = ("HOLDFAST_SHELL", "HOLDFAST_KERNEL", "HOLDFAST_JOB")

logger = logging.getLogger(__name__)


class CannotStart(Exception):
    """The job was not started. The message says why; `code` is for programs."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class JobOrder:
    """A command, as `shell` reads it, where it runs, its variables, and its user: None is the session's."""

    id: str
    name: str
    command: str
    shell: str
    cwd: str
    env: Mapping[str, str]
    account: UserAccount | None = None
    actor: str = "agent"
    size: TerminalSize = DEFAULT_SIZE


class DetachedCommand:
    """One command on its own terminal, running or ended."""

    def __init__(self, order: JobOrder, log: StreamLog, started: float) -> None:
        self.order = order
        self.log = log
        self.size = order.size
        """The size of its terminal; the last one, once that is closed."""
        self.started = started
        """By the loop's clock."""
        self.started_at = time.time()
        self.pid: int | None = None
        self.terminal: ProcessTerminal | None = None
        """Set until no process holds the other side any more, which can be after the end."""
        self.end: ProcessEnd | None = None
        self.duration: float | None = None
        self.end_offset: int | None = None
        self.killed_by: str | None = None
        """The actor who sent it a signal."""
        self.watching: JobWatch | None = None
        """Set while it runs."""
        self.folder = ""
        """The name of the folder of its output."""
        self._filter = MarkFilter(secrets.token_hex(8))
        self._limit = LineLimit()

    @property
    def id(self) -> str:
        """The id its starter chose."""
        return self.order.id

    @property
    def over(self) -> bool:
        """True if it has ended."""
        return self.end is not None

    def output(
        self, start: int, until: Callable[[], int | None], pause: Callable[[int], T | None] = no_pause
    ) -> AsyncIterator[OutputPiece | OutputGap | T]:
        """Yield the output from `start` on. See `shell_output.visible`."""
        return visible(self.log, self._filter, start, until, pause)

    def excess(self, data: bytes) -> int:
        """Return the length of the line of which its terminal would drop a part, or 0."""
        return self._limit.excess(data, self.terminal.line_ends()) if self.terminal else 0

    async def write(self, data: bytes) -> None:
        """Type data into its terminal."""
        if self.terminal:
            self._limit.typed(data, self.terminal.line_ends())
            if self.watching:
                self.watching.typed()
            await self.terminal.write(data)

    def resize(self, size: TerminalSize) -> None:
        """Change the size of its terminal."""
        if self.terminal:
            self.terminal.resize(size)
            self.size = size

    def observed(self) -> State:
        """Return its present activity."""
        if self.end is not None:
            return State("exited", pid=self.pid, exit_code=exit_code(self.end), signal=self.end.signal)
        return self.watching.state() if self.watching else State("starting")

    def signal(self, number: int) -> None:
        """Send a signal to everything still in its terminal session; an interrupt as Ctrl-C does."""
        if self.watching:
            self.watching.typed()
        if self.terminal and number == signal.SIGINT:
            self.terminal.interrupt()
            return
        for group in {process.group for process in processes() if process.session == self.pid}:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)

    def as_dict(self, now: float) -> dict[str, object]:
        """Return its description, for the wire."""
        end = self.end
        return {
            "id": self.id,
            "name": self.order.name,
            "command": self.order.command[:1000],
            "cwd": self.order.cwd,
            "actor": self.order.actor,
            "pid": self.pid,
            "state": "running" if end is None else "exited",
            "exit_code": end and exit_code(end),
            "signal": end and end.signal,
            "killed_by": self.killed_by,
            "observed": self.observed().as_dict(),
            "start_offset": self.log.start,
            "end_offset": self.log.end,
            "rows": self.size.rows,
            "cols": self.size.columns,
            "started_at": round(self.started_at, 3),
            "duration": now - self.started if self.duration is None else self.duration,
        }


def exit_code(end: ProcessEnd) -> int | None:
    """Return an exit code by the convention of shells: 128 plus the signal's number, if one ended it."""
    return end.exit_code if end.signal is None else _SIGNALLED + end.signal


class Jobs:
    """All jobs of the session, by id."""

    def __init__(
        self, surroundings: ProcessSurroundings, held: Mapping[str, HeldRecord] = MappingProxyType({})
    ) -> None:
        """Begin; `held` are the jobs of a previous supervisor, which continue."""
        layout, self._account, self._reaper, self._origins, self._notice = surroundings
        self._folder = layout.state / "jobs"
        self._loop = asyncio.get_running_loop()
        self._jobs: dict[str, DetachedCommand] = {}
        self._made = 0
        self._keeper = self._reaper.keeper
        if not held:
            removal.discard(self._folder)
        for one in held.values():
            self._adopt(one)
        self._drop_unknown()

    def known(self, id_: str) -> DetachedCommand | None:
        """Return the job of exactly that id, if there is one."""
        return self._jobs.get(id_)

    def find(self, ref: str) -> DetachedCommand | None:
        """Return the job of that id or name, or of those first letters of its id, if it is known.

        Of several with that name it is the last.
        """
        if job := self._jobs.get(ref):
            return job
        named = [job for job in self._jobs.values() if job.order.name == ref]
        if named:
            return named[-1]
        alike = [job for id_, job in self._jobs.items() if id_.startswith(ref)]
        return alike[0] if len(alike) == 1 and len(ref) >= SHORTEST_REF else None

    def all(self) -> list[DetachedCommand]:
        """Return all known jobs, the oldest first."""
        return list(self._jobs.values())

    def now(self) -> float:
        """Return the time by which jobs are measured."""
        return self._loop.time()

    def start(self, order: JobOrder) -> DetachedCommand:
        """Start a command.

        Raises:
            CannotStart: it was not started; nothing has changed.
        """
        running = [job for job in self._jobs.values() if not job.over]
        if len(running) >= MAX_RUNNING:
            raise CannotStart(
                "limit", f"cannot start job: {MAX_RUNNING} are running already; end one, or wait for one"
            )
        if order.name and any(job.order.name == order.name for job in running):
            raise CannotStart("invalid", f"cannot start job: one named {order.name} is already running")
        if not Path(order.cwd).is_dir():
            raise CannotStart("invalid", f"cannot start job: there is no directory {order.cwd}")
        self._drop_old()
        self._made += 1
        log = StreamLog(self._folder / f"{self._made:06d}", OUTPUT_CAPACITY, SEGMENT_SIZE)
        job = DetachedCommand(order, log, self._loop.time())
        job.folder = f"{self._made:06d}"
        begun = time.time()
        try:
            job.terminal = self._terminal(order)
        except (OSError, ValueError) as error:
            log.remove()
            from holdfast.runtime.guest.pulse import cgroup_limits  # few sessions need it

            raise CannotStart(
                "failed", f"cannot start job: {cgroup_limits.explain_shortage(error)}"
            ) from error
        job.pid = job.terminal.pid
        self._jobs[order.id] = job
        self._follow(job)
        self._keep(job, new=True)
        self._notice(
            "job_started",
            id=order.id,
            name=order.name,
            command=order.command[:1000],
            cwd=order.cwd,
            actor=order.actor,
            pid=job.pid,
            not_before=begun,
        )
        self._watch(job)
        logger.info("job %s: started, pid %d", order.id, job.pid)
        return job

    def _follow(self, job: DetachedCommand) -> None:
        assert job.pid
        assert job.terminal
        order = job.order
        self._origins.own(job.pid, Origin("job", order.id, short(order.command), order.actor))
        self._loop.add_reader(job.terminal.fd, self._take, job, 1)

    def _watch(self, job: DetachedCommand) -> None:
        assert job.pid
        job.watching = JobWatch(job, lambda: self._take(job), lambda state: self._waits(job, state))
        self._reaper.watch(job.pid, lambda: self._ended(job))

    def _adopt(self, held: HeldRecord) -> None:
        """Continue with a job of another supervisor."""
        fields = held.fields
        terminal = ProcessTerminal.adopted(held.pid, held.descriptor)
        order = JobOrder(
            id=str(fields["id"]),
            name=str(fields["name"]),
            command=str(fields["command"]),
            shell=str(fields["shell"]),
            cwd=str(fields["cwd"]),
            env={},
            actor=str(fields["actor"]),
            size=terminal.size,
        )
        self._made = max(self._made, int(fields["folder"]))
        log = StreamLog(
            self._folder / fields["folder"], OUTPUT_CAPACITY, SEGMENT_SIZE, kept=int(fields["kept"])
        )
        now = time.time()
        job = DetachedCommand(order, log, self._loop.time() - max(0.0, now - float(fields["began"])))
        job.folder, job.started_at = fields["folder"], float(fields["at"])
        job.pid, job.terminal = held.pid, terminal
        job.killed_by = fields["killed_by"]
        self._jobs[order.id] = job
        self._follow(job)
        self._watch(job)
        logger.info("job %s: adopted, pid %d", order.id, held.pid)
        if held.status is not None:
            self._loop.call_soon(self._reaper.ended_elsewhere, held.pid, held.status)

    def keep(self) -> None:
        """Store with the keeper the facts a new supervisor needs, as after a restore."""
        for job in self._jobs.values():
            if not job.over:
                self._keep(job)

    def _keep(self, job: DetachedCommand, *, new: bool = False) -> None:
        if job.pid is None or job.terminal is None:
            return
        order = job.order
        fields = {
            "id": order.id,
            "name": order.name,
            "shown": f"{order.id[:12]} ({short(order.command)})",
            "command": order.command[:KEPT_COMMAND],
            "shell": order.shell[:200],
            "cwd": order.cwd[:1000],
            "actor": order.actor,
            "folder": job.folder,
            "kept": job.log.start,
            "at": job.started_at,
            "began": round(time.time() - (self._loop.time() - job.started), 3),
            "start": adoption.start_of(job.pid),
            "killed_by": job.killed_by,
            "runs": [order.id],
        }
        self._keeper.hold(f"job:{order.id}", job.pid, fields, job.terminal.fd if new else -1)

    def _drop_unknown(self) -> None:
        """Remove the output of jobs that are no longer known."""
        with contextlib.suppress(OSError):
            for name in set(os.listdir(self._folder)) - {job.folder for job in self._jobs.values()}:  # noqa: PTH208
                removal.discard(self._folder / name)

    def hold(self, *, hold: bool) -> None:
        """Make programs that write to the terminals wait, or let them continue."""
        for job in self._jobs.values():
            if job.terminal:
                job.terminal.hold_output(hold=hold)

    def drain(self) -> None:
        """Record the terminals' present content."""
        for job in self._jobs.values():
            self._take(job)

    def stop(self) -> None:
        """Hang up without a successor."""
        for job in self._jobs.values():
            if job.pid is not None and not job.over:
                self._reaper.forget(job.pid)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(job.pid, signal.SIGHUP)
            self._hang_up(job)

    def _terminal(self, order: JobOrder) -> ProcessTerminal:
        def in_child() -> None:
            with contextlib.suppress(OSError):
                Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
            (order.account or self._account).become()

        env = {name: value for name, value in order.env.items() if name not in _OURS}
        return ProcessTerminal(
            [order.shell, "-c", order.command],
            cwd=order.cwd,
            env={**with_identity(env, os.environ), "HOLDFAST_JOB": order.id},
            size=order.size,
            in_child=in_child,
        )

    def _take(self, job: DetachedCommand, turns: int = 64) -> None:
        """Record its terminal's content, and close a terminal that no process holds any more."""
        while job.terminal and turns:
            turns -= 1
            data = job.terminal.read()
            if data:
                job.log.append(data)
                continue
            if data is None and job.over:
                self._hang_up(job)
            elif data is None:  # it has closed its terminal and continues without, or is just ending
                self._loop.remove_reader(job.terminal.fd)
            return

    def _ended(self, job: DetachedCommand) -> None:
        assert job.pid
        status = self._reaper.status(job.pid)
        self._keeper.drop(f"job:{job.id}")
        self._origins.disown(job.pid)
        job.end = ProcessEnd.of_status(status)
        self._take(job)
        job.duration = self._loop.time() - job.started
        if job.watching:
            job.watching.stop()
            job.watching = None
        job.end_offset = job.log.end
        logger.info("job %s: pid %d ended with %s", job.id, job.pid, job.end)
        self._notice(
            "job_ended",
            job.end,
            id=job.id,
            name=job.order.name,
            command=short(job.order.command),
            actor=job.order.actor,
            pid=job.pid,
            duration=round(job.duration, 3),
            end_offset=job.end_offset,
            **({"killed_by": job.killed_by} if job.killed_by else {}),
        )
        job.log.wake()
        self._origins.look_soon()

    def _waits(self, job: DetachedCommand, state: State) -> None:
        self._notice("waiting", job=job.id, id=job.id, state=state.as_dict())

    def _hang_up(self, job: DetachedCommand) -> None:
        if job.terminal:
            self._loop.remove_reader(job.terminal.fd)
            job.terminal.close()
            job.terminal = None
            job.log.rest()

    def _drop_old(self) -> None:
        """Make room for one more job."""
        over = [job for job in self._jobs.values() if job.over]
        kept = sum(job.log.end - job.log.start for job in over)
        while over and (len(over) >= KEPT or kept > KEPT_OUTPUT):
            oldest = over.pop(0)
            kept -= oldest.log.end - oldest.log.start
            self._hang_up(oldest)
            oldest.log.remove()
            del self._jobs[oldest.id]
