"""Captures that a job itself requests, for example a test at its failing frame.

While the command runs they are only taken and named, which is all the program waits for; they are delivered
when it is over. The program gets the name under which its capture will be found.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.runtime.ci.delivery import Deliveries, command
from holdfast.runtime.ci.job_summary import KeptCapture

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from holdfast.runtime.api.capture_requests import Served, Serving
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.api.snapshot import Snapshot
    from holdfast.snapshots.failure import Failure


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
        """True if one of them shows a failure: then the job as a whole need not be captured."""
        with self._lock:
            return any(each.failure is not None and each.failure.reason != "asked" for each, _ in self._taken)

    def serve(self, session: Session) -> AbstractContextManager[Serving]:
        """Serve requests while the block runs."""
        return session.serve_captures(
            reference=self._place, on_captured=self._captured, limit=self._most, record=self._completed
        )

    def deliver(self) -> tuple[KeptCapture, ...]:
        """Deliver all captures, in order; those that cannot be delivered stay here."""
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
                self._refused.append(f"one has {served.snapshot.size >> 20} MiB, more than is allowed")
            served.snapshot.remove()
