"""The durable copies of a node's sessions: captured, pushed to the cluster's registry, committed as one row.

A copy counts once its row is committed, under the epoch that the node has the session by: uploads of a node
that has lost it are never referred to. Two tags of a session and epoch take turns, so that the copy that
counts has a tag while the next one arrives. Only this home's own captures of this kind are removed, and the
newest two stay.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from holdfast.base.text import plain
from holdfast.errors import HoldfastError, InvalidArgument, SessionBusy
from holdfast.runtime.capture import reuse_check, snapshot_service
from holdfast.runtime.cluster.cluster_rows import CommandNote, DurableCopy, Held
from holdfast.runtime.journal import journal_query
from holdfast.runtime.moving import travelling_identity
from holdfast.runtime.sessions import health
from holdfast.runtime.sessions.session_lock import turn
from holdfast.runtime.storage import snapshot_storage
from holdfast.runtime.store.row_details import Clustered
from holdfast.runtime.transfer import push_pull
from holdfast.runtime.transfer.transfer_options import SendOptions
from holdfast.snapshots import manifest as manifests

if TYPE_CHECKING:
    from holdfast.runtime.cluster.cluster_rows import NodeTicket
    from holdfast.runtime.cluster.cluster_store import ClusterStore
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow, SnapshotRow

TRIGGER = "durable"
KEPT = 2
"""Captures for copies that stay in the home; a session that returns here does not have to be fetched."""
STARTS = ("command_started", "cell_started")
MOST_TEXT = 200
"""Characters of a command that the cluster keeps until a copy holds it."""
logger = logging.getLogger("holdfast.node")


@dataclass(frozen=True, slots=True)
class Registry:
    """Where copies are: `host[:port]/repository`, without a tag; `plain_http` without TLS."""

    place: str
    plain_http: bool = False

    def reference(self, session: str, epoch: int, number: int) -> str:
        """Return the tag of a copy."""
        return f"{self.place}:{session}-{epoch}-{number % 2}"


class DurableCopies:
    """Makes copies for one node."""

    def __init__(
        self, context: Context, store: ClusterStore, registry: Registry, ticket: Callable[[], NodeTicket]
    ) -> None:
        self._context, self._store, self._registry, self._ticket = context, store, registry, ticket
        self._noted: dict[str, int] = {}
        self._making = defaultdict[str, threading.Lock](threading.Lock)

    def is_changed(self, row: SessionRow) -> bool:
        """Return whether something in a session possibly differs from its copy."""
        mark = row.details.cluster
        if mark is None or not mark.snapshot:
            return True
        if row.state != "running":
            last = self._context.store.latest_snapshot(row.id)
            return last is None or last.id != mark.snapshot
        found = reuse_check.since(self._context, row)
        return found is None or found[0].id != mark.snapshot

    def make(self, row: SessionRow, number: int) -> float:
        """Make a session durable as it is now, and return when that was, in Unix seconds.

        `number` is the number of the newest committed copy.

        Raises:
            LeaseLost: the session is not this node's any more.
            HoldfastError: there is no new copy; the captured snapshot stays here.
        """
        with self._making[row.id]:  # of two that had the same number, the later one would not count
            return self._made(self._context.store.session(row.id), number)

    def bound(self, row: SessionRow) -> str | None:
        """Return the reason for which a session cannot be copied: it uses folders or secrets of this machine.
        None if it does not.
        """
        try:
            self._taken_along(row)
        except InvalidArgument as error:
            return str(error).partition(": ")[2]
        return None

    def _made(self, row: SessionRow, number: int) -> float:
        mark = row.details.cluster
        assert mark is not None, "only sessions of the cluster have copies"
        along = self._taken_along(row)
        began = time.time()
        taken = self._captured(row)
        if taken.details.moment.at is not None:
            began = min(began, taken.details.moment.at)
        if row.state != "running":
            began = taken.created_at.timestamp()
        self._context.store.keep_snapshot_details(taken.id, about=along)
        taken = self._context.store.snapshot(taken.id)
        number = max(number, mark.number) + 1
        pushed = self._pushed(taken, self._registry.reference(row.id, mark.epoch, number))
        needs = manifests.read(self._context.home.snapshots / taken.id).all_needs()
        self._store.commit_copy(
            self._ticket(),
            DurableCopy(
                session=row.id,
                epoch=mark.epoch,
                number=number,
                snapshot=taken.id,
                reference=pushed.pinned,
                journal_seq=taken.details.moment.journal_seq or 0,
                size_bytes=pushed.bytes,
                needs=needs,
                captured_age_s=max(0.0, time.time() - began),
            ),
        )
        kept = replace(mark, number=number, at=began, snapshot=taken.id)
        self._context.store.change_detail(row.id, "cluster", lambda now: _moved_on(now, kept))
        self._remove_older(row.id)
        return began

    def note_commands(self, row: SessionRow) -> None:
        """Tell the cluster which commands and cells have started since the last time.

        Raises:
            ClusterError: it does not know them yet.
        """
        mark = row.details.cluster
        if mark is None:
            return
        after = self._noted.get(row.id, 0)
        wanted = journal_query.Filter(after=after, kinds=STARTS)
        found = [each for each in journal_query.read(self._context, row.id, wanted) if each.seq > after]
        notes = [
            CommandNote(
                each.seq,
                plain(str(each.details.get("command") or each.details.get("code") or ""), MOST_TEXT),
                _key(each.details.get("key")),
            )
            for each in found
        ]
        if notes:
            self._store.note_commands(self._ticket(), Held(row.id, mark.epoch), notes)
            self._noted[row.id] = notes[-1].seq

    def _taken_along(self, row: SessionRow) -> dict[str, Any]:
        """Return the state that a session takes along.

        Raises:
            InvalidArgument: it uses something that only this machine has.
        """
        try:
            options = travelling_identity.travelling_options(row.name, row.options)
        except InvalidArgument as error:
            why = str(error).partition(": ")[2]
            raise InvalidArgument(f"cannot make {row.name} durable: {why}", hint=error.hint) from error
        identity = travelling_identity.of(self._context.store, row)
        return {"options": options, "identity": identity, "policy": row.details.policy}

    def _captured(self, row: SessionRow) -> SnapshotRow:
        """Return a snapshot of a session as it is now; the last one, if nothing has happened since."""
        context = self._context
        if row.state == "suspended":
            last = context.store.latest_snapshot(row.id)
            if last is None:
                raise SessionBusy(f"cannot make {row.name} durable: it is being suspended")
            return last
        health.check(context, row.id)
        with turn(context, row, "capture") as held:
            auto = {"trigger": TRIGGER, "what": "for the cluster"}
            return snapshot_service.capture(context, held, None, "live", None, auto)

    def _pushed(self, taken: SnapshotRow, reference: str) -> push_pull.Pushed:
        context = self._context
        wire = push_pull.registry_wire(reference, plain_http=self._registry.plain_http)
        # Nothing is taken out: a session that returns without its secrets would not be the same.
        options = SendOptions.signed(context.home, (None, None), ((), None), secrets="ignore")
        return push_pull.push(context, taken, wire, options)

    def _remove_older(self, session: str) -> None:
        context = self._context
        rows = context.store.snapshots(session)
        mine = [row for row in rows if (row.details.auto or {}).get("trigger") == TRIGGER]
        used = {row.parent_snapshot_id for row in context.store.sessions()}
        old = [row for row in mine[:-KEPT] if not row.pinned and row.id not in used]
        if old:
            try:
                snapshot_storage.remove_snapshots(context, old)
            except HoldfastError as error:
                logger.warning("cannot remove older copies of %s: %s", session, plain(str(error), 300))


def _moved_on(now: Any, kept: Clustered) -> Any:
    """Return the mark of a session with its new copy, unless it is no longer here under that epoch."""
    return kept.as_dict() if isinstance(now, dict) and now.get("epoch") == kept.epoch else now


def _key(found: object) -> str | None:
    return found if isinstance(found, str) else None
