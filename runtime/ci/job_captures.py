"""The captures of a job: of its session when it has failed, and captures that the job itself requests.

The first has limits of time and size. A capture that takes too long is interrupted and undone, as by
Ctrl-C. Without a live snapshot, the reason is reported, and files alone are kept only on request.

The others, for example of a test at its failing frame, are only taken and named while the command runs, which
is all the program waits for; they are delivered when it is over. The program gets the name under which its
capture will be found.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.base.text import plain
from holdfast.errors import CaptureFailed, HoldfastError, LiveUnsupported
from holdfast.runtime.ci.delivery import Deliveries, command
from holdfast.runtime.ci.job_summary import KeptCapture

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import FrameType

    from holdfast.runtime.api.capture_requests import Served, Serving
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.api.snapshot import Snapshot
    from holdfast.runtime.store.rows import SnapshotKind
    from holdfast.snapshots.failure import Failure

MOST_FINDINGS = 5


@dataclass(frozen=True, slots=True)
class CaptureLimits:
    """Limits of a capture: `seconds`, bytes of `size`. `files`: keep the files if it cannot be live."""

    seconds: float = 300.0
    size: int | None = None
    files: bool = False


@dataclass(frozen=True, slots=True)
class CapturedFailure:
    """The captured snapshot. `why` is the reason why it is not live, or missing altogether."""

    snapshot: Snapshot | None
    why: str = ""


class _Over(Exception):
    """The time limit of a capture has expired."""


def capture_failure(session: Session, record: Failure, limits: CaptureLimits) -> CapturedFailure:
    """Capture a session, which keeps running."""
    try:
        _check_memory(session, limits)
        return CapturedFailure(_within(session, "live", record, limits))
    except HoldfastError as error:
        why = _detailed(error)
    if not limits.files:
        return CapturedFailure(None, why)
    try:
        return CapturedFailure(
            _within(session, "filesystem", record, limits), f"{why}; only the files were kept"
        )
    except HoldfastError as error:
        return CapturedFailure(None, f"{why}; nor could the files be kept: {error}")


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise CaptureFailed in the block when its time is over. Only the main thread has such a limit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(_number: int, _frame: FrameType | None) -> None:
        raise _Over

    before = signal.signal(signal.SIGALRM, over)
    left = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _Over:
        raise CaptureFailed(
            f"cannot capture the session: it took more than {seconds:g} s",
            hint="--capture-limit SECONDS allows more",
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, *left)
        signal.signal(signal.SIGALRM, before)


def _within(session: Session, kind: SnapshotKind, record: Failure, limits: CaptureLimits) -> Snapshot:
    with alarm(limits.seconds):
        taken = session.snapshot(kind=kind, reason=record.title, failure=record)
    if limits.size is not None and taken.size > limits.size and taken.pack().size > limits.size:
        taken.remove()
        raise CaptureFailed(
            f"cannot keep the snapshot: it has {taken.size >> 20} MiB, and the limit is "
            f"{limits.size >> 20} MiB",
            hint="--size-limit SIZE allows more",
        )
    return taken


def _check_memory(session: Session, limits: CaptureLimits) -> None:
    """Refuse a capture that is too large before it is written."""
    if limits.size is None:
        return
    found = session.pulse(parts=("limits",)).memory
    if found is not None and (found.anonymous or 0) > limits.size:
        raise CaptureFailed(
            f"cannot capture the session: its programs use {(found.anonymous or 0) >> 20} MiB "
            f"of memory, and the limit is {limits.size >> 20} MiB",
            hint="--size-limit SIZE allows more",
        )


def _detailed(error: HoldfastError) -> str:
    """Return an error's message with the obstacles, as `snapshot --check` names them."""
    findings = list(error.findings)[:MOST_FINDINGS] if isinstance(error, LiveUnsupported) else []
    named = [
        plain(f"{each.get('command') or each.get('what') or ''}: {each.get('reason') or ''}", 200)
        for each in findings
    ]
    return "; ".join([str(error), *(name for name in named if name and name not in str(error))])


class JobCaptures:
    """The captures of one job.

    Args:
        deliveries: where they go.
        completed: makes the kept record from a program's own.
        remark: gets what readers of the summary should know.
        size: bytes above which a capture is not kept.
        most: limit of captures.
    """

    def __init__(
        self,
        deliveries: Deliveries,
        completed: Callable[[Failure], Failure],
        remark: Callable[[str], None],
        size: int | None,
        most: int,
    ) -> None:
        self._deliveries = deliveries
        self._completed = completed
        self._remark = remark
        self._size = size
        self._most = most
        self._lock = threading.Lock()
        self._taken: list[tuple[Snapshot, str]] = []
        self._refused: list[str] = []

    @property
    def of_failures(self) -> bool:
        """True if one of them shows a failure, so that the job as a whole does not need a capture."""
        with self._lock:
            return any(each.failure is not None and each.failure.reason != "asked" for each, _ in self._taken)

    def serve(self, session: Session) -> AbstractContextManager[Serving]:
        """Serve requests while the block runs."""
        return session.serve_captures(
            reference=self._place, on_captured=self._captured, limit=self._most, record=self._completed
        )

    def deliver(self) -> tuple[KeptCapture, ...]:
        """Deliver all captures, in order; undeliverable ones stay here."""
        with self._lock:
            taken, self._taken = self._taken, []
            refused, self._refused = self._refused, []
        if refused:
            self._remark(f"{len(refused)} requested captures were not kept: {refused[0]}")
        return tuple(self._one(snapshot, name) for snapshot, name in taken)

    def _one(self, snapshot: Snapshot, name: str) -> KeptCapture:
        title = snapshot.failure.title if snapshot.failure is not None else name
        try:
            return self._deliveries.deliver(snapshot, name, title, self._remark)
        except HoldfastError as error:
            self._remark(f"{title}: {error}; it stays in the home of this machine")
            return KeptCapture(title, command(snapshot.name), snapshot.size, snapshot.kind)

    def _place(self, snapshot: Snapshot) -> str:
        failure = snapshot.failure
        name = self._deliveries.name(snapshot.label or (failure.where if failure else None) or "captured")
        with self._lock:
            self._taken.append((snapshot, name))
        return self._deliveries.place(name) or snapshot.name

    def _captured(self, served: Served) -> None:
        if served.snapshot is None:
            with self._lock:
                self._refused.append(str(served.error))
        elif (
            self._size is not None
            and served.snapshot.size > self._size
            and served.snapshot.pack().size > self._size
        ):
            with self._lock:
                self._taken = [each for each in self._taken if each[0].id != served.snapshot.id]
                self._refused.append(f"one takes {served.snapshot.size >> 20} MiB, more than allowed")
            served.snapshot.remove()
