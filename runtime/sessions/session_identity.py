"""The identity of sessions in a store: the right to take an id over, its present owner, and duplicates; and
the mark of a session that a move has suspended, which must not continue here while it may run elsewhere.

Knows nothing of how sessions are moved.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.errors import OutcomeUnknown, SessionBusy, SessionExists
from holdfast.runtime.journal import host_events
from holdfast.runtime.sessions.tenures import Tenures
from holdfast.runtime.store import lifetime
from holdfast.runtime.store.lives import Lives

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.row_details import SessionDetails
    from holdfast.runtime.store.rows import SessionRow, SnapshotRow
    from holdfast.runtime.store.store import Store


TWIN = "twin"
"""The kind of the journal entry of a session that another machine runs as well."""


def tenures(store: Store, session: SessionRow) -> Tenures:
    """Return the chain of a session. It begins when it is first asked for: most sessions stay where they
    are.
    """
    found = Tenures.parse(session.details.tenures)
    if found.chain:
        return found
    begun = Tenures.begun(session.created_at.timestamp(), socket.gethostname())
    store.change_detail(
        session.id, "tenures", lambda kept: kept if Tenures.parse(kept).chain else begun.kept()
    )
    row = store.find_session(session.id, removed=True)
    return Tenures.parse(row.details.tenures) if row is not None else begun


def travelling(store: Store, snapshot: SnapshotRow) -> Tenures:
    """Return the chain of a snapshot's session as it was then, without names of machines."""
    if snapshot.details.origin is not None:
        found = Tenures.parse(snapshot.details.tenures)
    else:
        session = store.find_session(snapshot.session_id, removed=True)
        found = Tenures() if session is None else tenures(store, session)
        found = found.until(snapshot.created_at.timestamp())
    return found.without_hosts()


def check_claim(store: Store, session_id: str, chain: Tenures) -> None:
    """Refuse to let a session take an id here without the right to it.

    An id that this home has never seen is free. One that has left goes to a session that continues the one
    which was here, one that was removed to any state of that session: their chains show that.

    Raises:
        SessionExists: a session with this id runs here, or what was here was another one.
    """
    row = store.find_session(session_id, removed=True)
    if row is None:
        return
    known = Tenures.parse(row.details.tenures)
    if row.state != "removed":
        raise SessionExists(
            f"session {row.name} ({session_id}) is there already ({row.state}): two machines have it",
            hint="remove one of the two with `holdfast rm`; before that, `holdfast fork` of the one to keep "
            "makes a copy with an id of its own",
        )
    if not (known.continued_by(chain) if row.details.moved_to else known.related_to(chain)):
        where = f", and has since moved to {row.details.moved_to}" if row.details.moved_to else ""
        raise SessionExists(
            f"session {session_id} was there before{where}: the arriving state does not continue it",
            hint="`holdfast restore` of a snapshot makes a copy with an id of its own",
        )


def take_over(
    store: Store, session_id: str, chain: Tenures, columns: Mapping[str, Any], details: SessionDetails
) -> SessionRow:
    """Record a session that is about to be made under an id it has had before; `columns` as for a new one.

    This home's records of it belong to an earlier life.

    Raises:
        SessionExists: it is not permitted to have the id (`check_claim`), or the name is taken.
    """
    check_claim(store, session_id, chain)
    details = store.made_by_user(details.plus(tenures=chain.kept()))
    details = lifetime.limited_details(store.database.folder, details)
    if store.find_session(session_id, removed=True) is None:
        return store.add_session(session_id=session_id, details=details, **columns)
    Lives(store.database).come_back(session_id, {**columns, "state": "creating"}, details)
    return store.session(session_id)


def begin_tenure(store: Store, session_id: str, tenure: str) -> None:
    """Record that a session belongs to this machine from now on."""
    chain = tenures(store, store.session(session_id)).plus(tenure, socket.gethostname())
    store.keep_details(session_id, tenures=chain.kept(), moved=None)


def hand_over(store: Store, session_id: str, to: str, there: str) -> None:
    """Record that a session belongs to another machine from now on, and its id there.

    Its mark (`moving`) stays: until it is removed here, it cannot be resumed.
    """
    store.keep_details(session_id, moved={"to": to, "at": time.time(), "id": there})


def look_for_twin(context: Context, session_id: str, chain: Tenures, taken_at: float, what: str) -> str:
    """Report that a session of this home also runs elsewhere, if the arriving state shows that.

    It is in the session's journal then, and on standard error. `what` names what has come. Return why, empty
    if there is nothing to report.
    """
    row = context.store.find_session(session_id)
    if row is None:
        return ""
    why = Tenures.parse(row.details.tenures).twin(chain, taken_at)
    if why:
        host_events.note(context, session_id, TWIN, why=why, of=what)
        context.progress(
            f"session {row.name} ({session_id}) runs on two machines: {why}, as {what} shows; "
            f"`holdfast rm` ends this one"
        )
    return why


def mark_suspended(context: Context, session: SessionRow, to: str) -> None:
    """Record that a session is suspended because it is being moved."""
    context.store.keep_details(session.id, moving={"to": to})


def mark_may_run_there(context: Context, session: SessionRow, to: str, attempt: str) -> None:
    """Record that from here on the other machine has permission to start it, in this attempt."""
    context.store.keep_details(session.id, moving={"to": to, "attempt": attempt})


def clear_mark(context: Context, session: SessionRow) -> None:
    """Record that it runs on no other machine."""
    if session.details.moving is not None:
        context.store.keep_details(session.id, moving=None)


def refuse_while_moving(session: SessionRow, verb: str) -> None:
    """Refuse to let a session continue here that could be running elsewhere.

    Raises:
        SessionBusy: it is being moved.
        OutcomeUnknown: a move was cut short when the other machine could already have started it.
    """
    moving, name = session.details.moving, session.name
    if moving is None:
        return
    if moving.attempt is None:
        raise SessionBusy(f"cannot {verb} session {name}: it is being moved to {moving.to}")
    raise OutcomeUnknown(
        f"cannot {verb} session {name}: it possibly runs at {moving.to}, where a move was cut short",
        hint=f"`holdfast move {name} {moving.to}` settles that; if it is certain that it does not run there, "
        f"`holdfast resume {name} --here`",
    )
