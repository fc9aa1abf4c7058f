"""Sessions that a node gives away while it works: ones that sleep, and all of them when it is drained.

Most of a session's state is copied while it runs. It is then suspended, the rest is copied, and the cluster
places it on another node in the same statement that takes it from this one. Until that statement it can
continue here, and does if anything fails. A session that sleeps is taken from the node once its copy holds
all of it, and wakes on any node that fits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.base.text import plain
from holdfast.errors import HoldfastError, SessionError
from holdfast.runtime.capture import snapshot_service
from holdfast.runtime.cluster.cluster_rows import Held
from holdfast.runtime.journal import host_events
from holdfast.runtime.lifecycle import teardown
from holdfast.runtime.node import session_marks
from holdfast.runtime.node.durable_copies import TRIGGER
from holdfast.runtime.restore import resume_session
from holdfast.runtime.sessions import session_identity
from holdfast.runtime.sessions.session_lock import turn

if TYPE_CHECKING:
    from holdfast.runtime.cluster.cluster_rows import ClusterSession, NodeTicket
    from holdfast.runtime.cluster.cluster_store import ClusterStore
    from holdfast.runtime.node.durable_copies import DurableCopies
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow

AT_ONCE = 2
"""Sessions that are handed over at the same time."""
AGAIN_SECONDS = 30.0
"""Until a session is handed over again that could not be: it was suspended for it."""
ELSEWHERE = "another node"
"""Where a session is being moved to, as its mark says: the cluster chooses the node."""
HANDED_OVER, ASLEEP = "handed_over", "asleep"
ACTOR = "system:cluster"
logger = logging.getLogger("holdfast.node")


class SessionReleases:
    """Gives sessions of one node away.

    Args:
        copies: makes their copies.
        number: returns the number of the newest committed copy of a session.
        give_away: notes that the node no longer has a session, before the database is notified.
    """

    def __init__(
        self,
        context: Context,
        store: ClusterStore,
        copies: DurableCopies,
        ticket: Callable[[], NodeTicket],
        number: Callable[[str], int],
        give_away: Callable[[Held], None],
    ) -> None:
        self._context, self._store, self._copies = context, store, copies
        self._ticket, self._number, self._give_away = ticket, number, give_away
        self._lock = threading.Lock()
        self._under_way: set[str] = set()
        self._stays: dict[str, str] = {}
        self._not_before: dict[str, float] = {}

    @property
    def under_way(self) -> frozenset[str]:
        """The sessions that are being given away now: no one else does anything with them."""
        with self._lock:
            return frozenset(self._under_way)

    def due(self, rows: Iterable[SessionRow]) -> list[SessionRow]:
        """Return the sessions that a drain can hand over now, small ones first."""
        found = [row for row in rows if row.id not in self.under_way and self._can_leave(row)]
        return sorted(found, key=lambda row: row.options.get("memory") or 0)

    def _can_leave(self, row: SessionRow) -> bool:
        """Return whether a session can be handed over now: it is not bound to this machine and suspended, it
        did not fail to leave just now, and no move to a machine outside of the cluster is under way.
        """
        rests = row.state == "suspended" and row.id in self._stays
        failed_lately = time.monotonic() < self._not_before.get(row.id, 0.0)
        moving = row.details.moving
        return not rests and not failed_lately and (moving is None or moving.to == ELSEWHERE)

    def hand_over(self, row: SessionRow) -> None:
        """Bring a session to another node, or to sleep if it is suspended; suspend it here if it uses folders
        or secrets of this machine.

        Raises:
            LeaseLost: it is not this node's any more.
            HoldfastError: it continues here, or it is unknown whether the cluster took it.
        """
        with self._giving(row.id):
            if (why := self._copies.bound(row)) is not None:
                self._keep_suspended(row, why)
                return
            sleeps = row.state == "suspended" and row.details.moving is None
            try:
                if row.state == "running":
                    self._copies.make(row, self._number(row.id))
                    # Before it is suspended: its callers learn that it is on its way.
                    session_identity.mark_suspended(self._context, row, ELSEWHERE)
                    row = snapshot_service.suspend(self._context, row, settle=False)
                    captured = {"trigger": TRIGGER, "what": "to hand it over"}
                    self._context.store.keep_snapshot_details(row.parent_snapshot_id or "", auto=captured)
                self._copies.make(row, self._number(row.id))
            except HoldfastError:
                self._not_before[row.id] = time.monotonic() + AGAIN_SECONDS
                self.take_back(row)
                raise
            placed = self._leave(row, ASLEEP if sleeps else HANDED_OVER)
        where = placed.node or placed.reason or "sleep"
        logger.info("handed %s over to %s", row.name, where)

    def put_to_sleep(self, row: SessionRow) -> None:
        """Give up a session that sleeps, once its copy holds all of it; do nothing before.

        Raises:
            LeaseLost: it is not this node's any more.
            HoldfastError: it sleeps here.
        """
        mark = row.details.cluster
        holds_all = mark is not None and mark.snapshot == row.parent_snapshot_id
        if row.state != "suspended" or row.details.moving is not None or not holds_all:
            return
        with self._giving(row.id):
            self._leave(row, ASLEEP)
        logger.info("%s sleeps; any node can wake it", row.name)

    def take_back(self, row: SessionRow) -> None:
        """Let a session continue here that was to be handed over."""
        row = self._context.store.session(row.id)
        moving = row.details.moving
        if moving is None or moving.to != ELSEWHERE:
            return
        session_identity.clear_mark(self._context, row)
        if row.state == "suspended":
            try:
                resume_session.resume(self._context, self._context.store.session(row.id))
            except HoldfastError as error:
                logger.error("%s stays suspended: %s", row.name, plain(str(error), 300))

    def _keep_suspended(self, row: SessionRow, why: str) -> None:
        if row.state == "running":
            snapshot_service.suspend(self._context, row)
        self._stays[row.id] = why
        mark = row.details.cluster
        assert mark is not None, "only sessions of the cluster are handed over"
        self._store.stays(self._ticket(), Held(row.id, mark.epoch), why)
        host_events.note(self._context, row.id, "not_handed_over", actor=ACTOR, why=why)
        logger.error("%s stays here, suspended: %s", row.name, plain(why, 300))

    def _leave(self, row: SessionRow, how: str) -> ClusterSession:
        """Have the cluster take a suspended session from this node, and remove it here."""
        context, mark = self._context, row.details.cluster
        assert mark is not None, "only sessions of the cluster are given away"
        held = Held(row.id, mark.epoch)
        with turn(context, row, "give away", usable=False) as now:
            copy = self._store.session(row.id).copy
            if now.state != "suspended" or copy is None or copy.snapshot != now.parent_snapshot_id:
                raise SessionError(f"cannot give {row.name} away: it was continued in the meantime")
            self._give_away(held)
            if how == ASLEEP:
                self._store.slept(self._ticket(), held)
                placed = self._store.session(row.id)
            else:
                placed = self._store.handed_over(self._ticket(), held)
            host_events.note(context, row.id, how, actor=ACTOR, to=placed.node)
            teardown.erase(context, row.id)
            session_marks.unmark(context, row.id)
        return placed

    @contextmanager
    def _giving(self, session: str) -> Iterator[None]:
        with self._lock:
            self._under_way.add(session)
        try:
            yield
        finally:
            with self._lock:
                self._under_way.discard(session)

    def forget_refusals(self) -> None:
        """Forget which sessions could not leave: the drain was taken back."""
        self._stays.clear()
