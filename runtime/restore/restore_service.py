"""The restore of a snapshot into new sessions, or the resumption of a suspended one, as one operation.

Everything it makes carries the operation's id, so that `recovery` can undo it; the steps are in
`restore_session`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.base import ids
from holdfast.errors import RestoreFailed, SessionError, SnapshotDamaged
from holdfast.runtime.journal import host_events
from holdfast.runtime.lifecycle import provision
from holdfast.runtime.lifecycle.take_back import take_back_containers
from holdfast.runtime.operations.context import Context
from holdfast.runtime.operations.operation import carry_out, undoes
from holdfast.runtime.restore.restore_session import Restoring
from holdfast.runtime.restore.start_again import start_again
from holdfast.runtime.sessions import health, session_identity
from holdfast.runtime.sessions.session_lock import turn
from holdfast.runtime.sessions.tenures import Tenures
from holdfast.runtime.storage import snapshot_lock
from holdfast.runtime.store import lifetime
from holdfast.runtime.store.row_details import OperationDetails, SessionDetails
from holdfast.runtime.store.rows import OperationKind, SessionRow, SnapshotRow
from holdfast.snapshots.fitness import Name

undoes(OperationKind.RESTORE, OperationKind.RESUME)(take_back_containers)


@dataclass(frozen=True, slots=True)
class Claim:
    """A session that continues here under its id: with the chain of its tenures, and the one that begins."""

    session_id: str
    chain: Tenures
    tenure: str


def restore(
    context: Context,
    snapshot: SnapshotRow,
    name: str | None,
    count: int,
    rung: Name | None = None,
    network: str | None = None,
    allow: Sequence[str] = (),
    deny: Sequence[str] = (),
    details: SessionDetails | None = None,
    limits: Mapping[str, Any] | None = None,
    *,
    on_touch: bool = False,
    identity: Claim | None = None,
) -> list[SessionRow]:
    """Make `count` sessions that continue from a snapshot: called name, or name-1, name-2, …

    They have the snapshot's network options, or `network`, and `allow` and `deny` in addition; its limits, or
    those in `limits` (memory, cpus, pids, or rules in place of its own); and `details` from the start.
    `on_touch`: their large heaps are loaded when they are touched. `identity`: the one session is no copy,
    but a session itself, which continues under its id.

    Raises:
        InvalidArgument: the options are not valid.
        LiveUnsupported: live sessions, or the requested rung, are not possible on this machine.
        SessionExists, SnapshotDamaged, RestoreFailed: nothing is left of any of them.
    """
    assert identity is None or count == 1, "a session is one"
    if snapshot.state == "pending":
        raise SnapshotDamaged(f"cannot restore {snapshot.name}: it is not complete")
    if name is not None:
        ids.check_name(name if count == 1 else f"{name}-{count}")
    with snapshot_lock.used(context, snapshot):
        restoring = Restoring(context, snapshot, rung=rung, on_touch=on_touch)
        options = restoring.options(network, allow, deny, limits or {})
        session_ids = [ids.new_id() for _ in range(count)] if identity is None else [identity.session_id]
        rows: list[SessionRow] = []

        def plan() -> None:
            for number, session_id in enumerate(session_ids, start=1):
                called = _name(name, number, count)
                rows.append(_add(context, restoring, options, session_id, called, details, identity))
            host_events.branched(context, rows, snapshot)

        made_of = OperationDetails.of(session_ids=session_ids)
        with carry_out(context, OperationKind.RESTORE, details=made_of, plan=plan) as operation:
            arrived = restoring.bring_up(rows, operation)
    if identity is not None:
        session_identity.begin_tenure(context.store, identity.session_id, identity.tenure)
    made = [each.row for each in arrived]
    with host_events.at_once(context):
        for each in arrived:
            each.note(context)
        host_events.restored(context, made, snapshot, restoring.rung)
    host_events.forked(context, made, snapshot)
    for each in arrived:
        each.report(context)
    return made


def resume(context: Context, session: SessionRow, *, here: bool = False) -> SessionRow:
    """Resume a suspended session under its name and id, or start a dead one again on its files.

    `here`: even if a move was cut short that may have brought it to another machine.
    """
    with turn(context, session, "resume", usable=False) as session:
        if here:
            if session.details.moving is not None:  # if it runs there as well, that will be noticed
                session_identity.begin_tenure(context.store, session.id, ids.new_id())
            session_identity.clear_mark(context, session)
        else:
            session_identity.refuse_while_moving(session, "resume")
        if session.state in ("running", "dead") and health.ended(context, session) is not None:
            return start_again(context, session)
        if session.state == "dead":
            health.check_usable(context, session)
        if session.state != "suspended" or session.parent_snapshot_id is None:
            raise SessionError(f"cannot resume session {session.name}: it is not suspended")
        snapshot = context.store.snapshot(session.parent_snapshot_id)
        with (
            snapshot_lock.used(context, snapshot),
            carry_out(context, OperationKind.RESUME, session_id=session.id) as operation,
        ):
            restoring = Restoring(context, snapshot)
            try:
                (resumed,) = restoring.bring_up([_next_generation(session, restoring)], operation)
            except RestoreFailed as error:
                error.hint = (
                    f"{error.hint}; the session stays suspended; "
                    f"`holdfast restore {snapshot.name} --as files` makes one of its files"
                ).removeprefix("; ")
                raise
    with host_events.at_once(context):
        resumed.note(context)
        host_events.note(context, session.id, "resumed")
    resumed.report(context)
    if lifetime.DETAIL not in session.details and "sandbox" not in session.details:
        return resumed.row
    now = time.time()
    lifetime.change(context.store, session.id, lambda kept: kept.resumed(now))
    return context.store.session(session.id)


def _next_generation(session: SessionRow, restoring: Restoring) -> SessionRow:
    return replace(session, generation=max(session.generation, restoring.kept.generation) + 1)


def _name(chosen: str | None, number: int, count: int) -> str | None:
    if chosen is None or count == 1:
        return chosen
    return f"{chosen}-{number}"


def _add(
    context: Context,
    restoring: Restoring,
    options: dict[str, Any],
    session_id: str,
    name: str | None,
    details: SessionDetails | None,
    identity: Claim | None,
) -> SessionRow:
    known = (details or SessionDetails()).plus(task=restoring.snapshot.details.task)
    if identity is not None:
        columns = {
            "name": name or restoring.kept.session_name,
            "image": restoring.kept.image,
            "options": options,
            "parent_snapshot_id": restoring.snapshot.id,
            "generation": restoring.kept.generation + 1,
        }
        return session_identity.take_over(context.store, session_id, identity.chain, columns, known)
    return provision.register(
        context.store,
        name,
        restoring.kept.image,
        options,
        session_id=session_id,
        parent_snapshot_id=restoring.snapshot.id,
        generation=restoring.kept.generation + 1,
        details=known,
    )
