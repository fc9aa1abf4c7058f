"""Journal entries for this host's actions on sessions: the actor, and the reason.

A journal that cannot be written does not undo the operation: the entry is left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.base.request_id import request_id
from holdfast.errors import StoreError
from holdfast.runtime.journal.mirror import mirror
from holdfast.runtime.store.timelines import Branch, journal_of

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.row_details import SnapshotDetails
    from holdfast.runtime.store.rows import SessionRow, SnapshotRow


def note(
    context: Context,
    session_id: str,
    kind: str,
    *,
    at: float | None = None,
    position: int | None = None,
    actor: str | None = None,
    copied: bool = False,
    **details: Any,
) -> None:
    """Append an entry about an action on a session, now or at an earlier entry.

    The session's earlier entries are copied first, unless they were `copied` already.
    """
    store = context.store
    body = {key: value for key, value in details.items() if value is not None}
    if context.reason is not None and actor is None:
        body["reason"] = context.reason
    if (asked := request_id()) is not None:
        body["request"] = asked
    try:
        if not copied:
            _catch_up(context, session_id, position)
        store.entries.note(
            session_id,
            kind,
            time.time() if at is None else at,
            actor=actor or context.actor,
            body=body,
            position=position,
        )
    except StoreError as error:
        context.progress(f"the journal of session {session_id} lacks an entry: {error}")


def _catch_up(context: Context, session_id: str, position: int | None) -> None:
    if position is None or context.store.entries.last(session_id) < position:
        mirror(context.store, context.home, session_id)


def catch_up(context: Context, session: SessionRow, moment: SnapshotDetails) -> None:
    """Copy a session's entries up to the moment of a snapshot, so that its entry does not have to wait."""
    try:
        _catch_up(context, session.id, moment.moment.journal_seq)
    except StoreError as error:
        context.progress(f"the journal of session {session.id} lacks entries: {error}")


@contextmanager
def at_once(context: Context) -> Iterator[None]:
    """Write the entries of the block in one transaction, for sessions that have just begun.

    An older session can have written megabytes since its journal was last copied, which others would wait
    for.
    """
    try:
        with context.store.together():
            yield
    except StoreError as error:
        context.progress(f"the journals of new sessions lack entries: {error}")


def taken(
    context: Context,
    session: SessionRow,
    snapshot: SnapshotRow,
    kind: str = "snapshot",
    *,
    copied: bool = False,
    why: str | None = None,
) -> None:
    """Record that a snapshot was taken of a session, or that it was suspended in one.

    `copied` is as for `note`; `why`: the reason if its lifetime has put it to sleep.
    """
    moment = snapshot.details.moment
    note(
        context,
        session.id,
        kind,
        at=moment.at,
        position=moment.journal_seq,
        copied=copied,
        snapshot=snapshot.id,
        label=snapshot.label,
        of=snapshot.kind,
        why=why,
    )


def branched(context: Context, sessions: Sequence[SessionRow], snapshot: SnapshotRow) -> None:
    """Record that sessions are about to continue from a snapshot: from here on their past is known."""
    moment = snapshot.details.moment
    if moment.journal_seq is not None:
        branch = Branch(journal_of(snapshot), moment.journal_seq, moment.at or 0.0)
        for session in sessions:
            context.store.entries.branch(session.id, snapshot.id, branch)


def restored(
    context: Context, sessions: Sequence[SessionRow], snapshot: SnapshotRow, rung: str = "live"
) -> None:
    """Record that sessions continue from a snapshot, or (`files`, `commands`) have its files only."""
    only = None if rung == "live" else rung
    for session in sessions:
        note(context, session.id, "restored", snapshot=snapshot.id, label=snapshot.label, only=only)


def forked(context: Context, sessions: Sequence[SessionRow], snapshot: SnapshotRow) -> None:
    """Record in the captured session's journal that others continue from its snapshot."""
    names = [session.name for session in sessions]
    into = ", ".join(names)
    note(context, snapshot.session_id, "forked", snapshot=snapshot.id, label=snapshot.label, into=into)
