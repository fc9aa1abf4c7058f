"""Runs a command in many copies of one snapshot, a few at a time, and keeps the interesting ones.

The names of all copies are written down beforehand, so that a process that comes after a killed one knows
which to remove; kept copies are released at the end. The decisions are in `spread`.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from holdfast.base import ids
from holdfast.base.background import Background
from holdfast.base.text import plain
from holdfast.errors import (
    HoldfastError,
    InvalidArgument,
    LiveUnsupported,
    RunsEnded,
    SessionBusy,
    SessionExists,
    SessionNotFound,
    SnapshotNotFound,
)
from holdfast.runtime.flaky import spread
from holdfast.runtime.flaky.spread import End, Run, Spread, to_keep
from holdfast.runtime.guest import layout
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.session_channel import SessionChannel
from holdfast.runtime.guest_rpc.shell_calls import ShellCall
from holdfast.runtime.lifecycle.teardown import finish_removal
from holdfast.runtime.operations.operation import carry_out, undoes
from holdfast.runtime.storage import snapshot_lock
from holdfast.runtime.store.row_details import OperationDetails
from holdfast.runtime.store.rows import OperationKind
from holdfast.snapshots import manifest

if TYPE_CHECKING:
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.guest_rpc.results import ExecResult
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow, SnapshotRow


undoes(OperationKind.RETRY)(finish_removal)

Keep = Literal["diverging", "all", "none"]
KeepAs = Literal["sessions", "snapshots"]
MOST = 256
AT_ONCE = 4
KEPT = 8
"""Limit of kept copies of diverging runs."""
LOOK = 0.5
"""Seconds between two checks for memory that others can have freed."""
OVERHEAD = 64 << 20
"""Memory of a container and its supervisor's own growth, in addition to the captured memory. Bytes."""
SPARE = 0.1
"""Share of the machine's memory that stays free, whatever is requested."""


@dataclass(frozen=True, slots=True)
class Series:
    """The command, the number of runs, and which copies to keep.

    `jobs` run at a time; `timeout` is in seconds, for each run.
    """

    command: str
    n: int = 20
    jobs: int = AT_ONCE
    timeout: float | None = None
    keep: Keep = "diverging"
    keep_as: KeepAs = "sessions"
    until_differs: bool = False
    compare_output: bool = False
    name: str | None = None

    def checked(self) -> Series:
        """Return the series itself.

        Raises:
            InvalidArgument: a value is not valid.
        """
        if not 1 <= self.n <= MOST:
            raise InvalidArgument(f"cannot run it {self.n} times: the number must be from 1 to {MOST}")
        if self.jobs < 1:
            raise InvalidArgument(f"cannot run {self.jobs} at once: the number must be at least 1")
        if self.timeout is not None and not 0 < self.timeout < 1e9:
            raise InvalidArgument("cannot use this timeout: it must be more than 0 seconds")
        if not self.command.strip():
            raise InvalidArgument("cannot run the command: it is empty")
        if self.keep not in ("diverging", "all", "none") or self.keep_as not in ("sessions", "snapshots"):
            raise InvalidArgument(
                "cannot keep that", hint="keep diverging, all or none; as sessions or snapshots"
            )
        return self


def retry(
    context: Context,
    snapshot: SnapshotRow,
    series: Series,
    report: Callable[[Run], None] = lambda _run: None,
    patience: Patience | None = None,
) -> Spread:
    """Run it, and return the results; `report` gets each run when it is over, and `patience` can end all.

    Raises:
        InvalidArgument, SessionExists: nothing was started.
        LiveUnsupported, RestoreFailed, SnapshotDamaged: copies cannot be made; none is left.
        RunsEnded: the patience was ended; no copy is left.
    """
    names = _names(context, snapshot, series.checked())
    details = OperationDetails.of(names=names, of=snapshot.id)
    with snapshot_lock.used(context, snapshot), carry_out(context, OperationKind.RETRY, details=details):
        many = _Many(context, snapshot, series, names, report, patience or Patience())
        spread = many.run()
        return spread.keeping(many.settle(spread))


def _names(context: Context, snapshot: SnapshotRow, series: Series) -> list[str]:
    prefix = series.name or f"{snapshot.name[:40]}-run"
    names = [ids.check_name(f"{prefix}-{number}") for number in range(1, series.n + 1)]
    taken = {row.name for row in context.store.sessions()} & set(names)
    labels = {row.label for row in context.store.snapshots()} & set(names)
    if series.keep_as == "snapshots" and series.keep != "none":
        taken |= {label for label in labels if label}
    if taken:
        first = sorted(taken)[0]
        raise SessionExists(
            f"cannot name a copy '{first}': the name is taken",
            hint=f"`holdfast rm {first}`, or choose others with --name",
        )
    return names


@dataclass
class _Many:
    context: Context
    snapshot: SnapshotRow
    series: Series
    names: list[str]
    report: Callable[[Run], None]
    patience: Patience
    _runs: list[Run] = field(default_factory=list)
    _held: dict[int, Session] = field(default_factory=dict)
    _coming: int = 0
    _active: int = 0
    _next: int = 1
    _memory: int = 0
    _failure: BaseException | None = None
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def run(self) -> Spread:
        """Do all runs, as many at a time as wanted and as fit in memory."""
        self._memory = _memory(self.context, self.snapshot)
        threads = [
            threading.Thread(target=self._work, name=f"retry-{number}", daemon=True)
            for number in range(min(self.series.jobs, self.series.n))
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(LOOK)
                    if self.patience.ended:
                        raise RunsEnded("cannot finish the runs: their caller has ended them, or has left")
        except BaseException:
            self._give_up()
            for thread in threads:
                thread.join()
            raise
        if self._failure is not None:
            raise self._failure
        return self._spread()

    def settle(self, spread: Spread) -> dict[int, str]:
        """Keep the copies to be kept, remove the rest, and return the names of the kept ones."""
        wanted: set[int] = set()
        if self.series.keep == "all":
            wanted = {run.number for run in spread.runs}
        elif self.series.keep == "diverging" and len(spread.kinds) > 1:
            wanted = (
                set(to_keep(spread.runs, most=KEPT)) if not self.series.compare_output else set(self._held)
            )
        kept: dict[int, str] = {}
        for number, session in sorted(self._held.items()):
            if number in wanted and (name := self._keep(session)) is not None:
                kept[number] = name
            else:
                self._remove(session)
        return kept

    def _keep(self, session: Session) -> str | None:
        if self.series.keep_as == "sessions":
            return session.name if session.refresh().state == "running" else None
        try:
            session.snapshot(session.name)
        except LiveUnsupported:
            session.snapshot(session.name, "filesystem")
        except HoldfastError as error:
            self.context.progress(f"{session.name} could not be kept: {error}")
            return None
        finally:
            self._remove(session)
        return session.name

    def _work(self) -> None:
        # A connection to the engine is for one thread.
        with closing(replace(self.context, background=Background())) as own:
            while (number := self._take()) is not None:
                try:
                    self._one(own, number)
                except BaseException as error:  # noqa: BLE001 - raised again where it was asked for
                    with self._changed:
                        self._failure = self._failure or error
                finally:
                    with self._changed:
                        self._active -= 1
                        self._changed.notify_all()

    def _take(self) -> int | None:
        """Return the number of the next run, once there is room for it; None after the last one."""
        with self._changed:
            while True:
                if self._failure is not None or self._next > self.series.n or self._differs():
                    return None
                available, total = memory_here()
                if self._active == 0 or memory_fits(available, total, self._memory, self._coming):
                    break
                self._changed.wait(LOOK)
            number, self._next = self._next, self._next + 1
            self._active += 1
            self._coming += 1
            return number

    def _one(self, own: Context, number: int) -> None:
        from holdfast.runtime.api.session import Session
        from holdfast.runtime.restore import restore_service

        try:
            row = restore_service.restore(own, self.snapshot, self.names[number - 1], 1)[0]
        finally:
            with self._changed:
                self._coming -= 1
        session = Session(own, row)
        with self._changed:
            self._held[number] = Session(self.context, row)
            over = self._failure is not None
        if over:  # it was not there yet when the others were removed
            self._remove(session)
            return
        found = _run_once(
            row,
            SessionChannel(own, lambda: row),
            number,
            self.series.command,
            self.series.timeout,
            lambda command, limit: session.detach(command).wait(on_bytes=lambda _data: None, patience=limit),
        )
        with self._changed:
            self._runs.append(found)
            drop = self._worthless()
        for held in drop:
            self._remove(held)
        self.report(found)

    def _worthless(self) -> list[Session]:
        """Return, and forget, the held copies whose runs are over and that will not be kept in any case."""
        if self.series.keep == "all":
            return []
        over = [run for run in self._runs if run.number in self._held]
        good = set() if self.series.keep == "none" else set(to_keep(self._runs, most=KEPT))
        if self.series.compare_output and self.series.keep != "none":
            good |= {kind.first.number for kind in self._spread().kinds[:KEPT]}
        return [self._held.pop(run.number) for run in over if run.number not in good]

    def _differs(self) -> bool:
        return self.series.until_differs and len(self._spread().kinds) > 1

    def _spread(self) -> Spread:
        series, runs = self.series, sorted(self._runs, key=lambda run: run.number)
        return Spread(series.command, self.snapshot.name, series.n, tuple(runs), series.compare_output)

    def _give_up(self) -> None:
        """Stop after an interrupt: no new copy is started, and the commands in the others are ended."""
        with self._changed:
            self._failure = self._failure or KeyboardInterrupt()
            held = list(self._held.values())
            self._changed.notify_all()
        for session in held:
            self._remove(session)

    def _remove(self, session: Session) -> None:
        with suppress(SessionNotFound):
            session.remove()


def _memory(context: Context, snapshot: SnapshotRow) -> int:
    if snapshot.kind == "filesystem":
        return 0
    try:
        processes = manifest.read(context.home.snapshots / snapshot.id).processes
    except SnapshotNotFound:
        return 0
    return processes.memory_bytes if processes is not None else 0


class _Patient(ShellCall):
    """A command that outlives its caller's time limit, to be inspected while it hangs."""

    def __init__(self, channel: SessionChannel, command: str, patience: float | None) -> None:
        limit = Patience(patience)
        limit.begin()  # now, and not when it has begun
        super().__init__(
            channel.client(),
            channel.reconnection(),
            command,
            shell=layout.MAIN,
            timeout=None,
            patience=limit,
            on_bytes=lambda _data: None,  # only keeps the end
        )


def _run_once(
    row: SessionRow,
    channel: SessionChannel,
    number: int,
    command: str,
    limit: float | None,
    beside: Callable[[str, float | None], ExecResult],
) -> Run:
    """Run a command in a copy; every outcome is a result.

    Args:
        row: the copy.
        channel: how it is reached.
        number: of the run.
        command: text for its shell.
        limit: seconds after which it has not ended; None for as long as it takes.
        beside: runs a command beside what has the shell, within a limit.

    Raises:
        InvalidArgument: it cannot be run anywhere.
    """
    started = time.monotonic()
    apart = False
    try:
        try:
            with channel.explained():
                result = _Patient(channel, command, limit).run()
        except SessionBusy:
            # The captured command still runs in the shell: run this one beside it.
            apart = True
            result = beside(command, limit)
    except InvalidArgument:
        raise
    except HoldfastError as error:
        ended = plain(str(error).rpartition(": ")[2], 200)
        return Run(number, "died", detail=ended, duration=time.monotonic() - started, apart=apart)
    end, code, detail = _end(result)
    lines = spread.output_lines(result.output)
    names = tuple(name for name in (row.name, row.id, (row.container_id or "")[:12]) if name)
    return Run(
        number,
        end,
        code,
        detail,
        time.monotonic() - started,
        tuple(lines),
        names,
        spread.digest(lines, names),
        apart,
    )


def _end(result: ExecResult) -> tuple[End, int | None, str]:
    if result.waiting is not None:
        return "waiting", None, plain(result.waiting.detail or "", 60)
    if result.shell_exited and result.exit_code is None:
        return "shell ended", None, ""
    if result.signal is not None:
        return "signal", result.signal, ""
    if result.exit_code is None:
        return "timeout", None, ""
    return "exit", result.exit_code, ""


def memory_fits(available: int, total: int, copy: int, coming: int) -> bool:
    """Return whether a copy of this many bytes can be started.

    Args:
        available: bytes the kernel could give without swapping.
        total: bytes of the machine.
        copy: bytes of memory a snapshot holds.
        coming: copies that were started and may not have taken their memory yet.
    """
    return available - (coming + 1) * (copy + OVERHEAD) >= SPARE * total


def memory_here() -> tuple[int, int]:
    """Return available and total bytes of this machine; unlimited if it does not report them."""
    found = dict(re.findall(r"(\w+): +(\d+) kB", Path("/proc/meminfo").read_text()))
    total = int(found.get("MemTotal", 0)) << 10
    return int(found.get("MemAvailable", 1 << 40)) << 10, total
