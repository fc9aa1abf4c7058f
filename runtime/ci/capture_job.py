"""Captures the session of a job that failed, within limits of time and size.

A capture that takes too long is interrupted and undone, as by Ctrl-C. If there is no live snapshot, the
reason is reported, and files alone are kept only on request.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.base.text import plain
from holdfast.errors import CaptureFailed, HoldfastError, LiveUnsupported

if TYPE_CHECKING:
    from types import FrameType

    from holdfast.runtime.api.session import Session
    from holdfast.runtime.api.snapshot import Snapshot
    from holdfast.runtime.store.rows import SnapshotKind
    from holdfast.snapshots.failure import Failure

MOST_FINDINGS = 5


@dataclass(frozen=True, slots=True)
class CaptureLimits:
    """Limits of a capture: `seconds`, bytes of `size`. `files`: keep those if it cannot be live."""

    seconds: float = 300.0
    size: int | None = None
    files: bool = False


@dataclass(frozen=True, slots=True)
class Frozen:
    """The captured snapshot. `why` says why it is not live, or missing altogether."""

    snapshot: Snapshot | None
    why: str = ""


class _Over(Exception):
    """The time limit of a capture has expired."""


def freeze(session: Session, record: Failure, limits: CaptureLimits) -> Frozen:
    """Capture a session, which keeps running."""
    try:
        _check_memory(session, limits)
        return Frozen(_within(session, "live", record, limits))
    except HoldfastError as error:
        why = _detailed(error)
    if not limits.files:
        return Frozen(None, why)
    try:
        return Frozen(_within(session, "filesystem", record, limits), f"{why}; only the files were kept")
    except HoldfastError as error:
        return Frozen(None, f"{why}; nor could the files be kept: {error}")


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
            f"cannot keep the snapshot: it has {taken.size >> 20} MiB, {limits.size >> 20} MiB are allowed",
            hint="--size-limit SIZE allows more",
        )
    return taken


def _check_memory(session: Session, limits: CaptureLimits) -> None:
    """Refuse in advance what would be too large, so that it is never written."""
    if limits.size is None:
        return
    found = session.pulse(parts=("limits",)).memory
    if found is not None and (found.anonymous or 0) > limits.size:
        raise CaptureFailed(
            f"cannot capture the session: its programs use {(found.anonymous or 0) >> 20} MiB of memory, "
            f"{limits.size >> 20} MiB are allowed",
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
