"""The restore of a snapshot into new sessions, or under the captured session's own id, as one operation.

Everything it makes carries the operation's id, so that `recovery` can undo it; the steps are in
`restore_session`. A session is recovered under its own id if its machine is lost or it was removed here.
Whether another machine still runs it cannot be known here; the first contact with it shows that
(`runtime/sessions/session_identity.py`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.base import ids
from holdfast.errors import SessionExists, SnapshotDamaged
from holdfast.runtime.journal import host_events
from holdfast.runtime.lifecycle import provision
from holdfast.runtime.lifecycle.take_back import take_back_containers
from holdfast.runtime.operations.context import Context
from holdfast.runtime.operations.operation import carry_out, undoes
from holdfast.runtime.restore.restore_session import Restoring
from holdfast.runtime.sessions import session_identity
from holdfast.runtime.sessions.tenures import Tenures
from holdfast.runtime.storage import snapshot_lock
from holdfast.runtime.store import lifetime, quotas
from holdfast.runtime.store.lifetime import Lifetime
from holdfast.runtime.store.row_details import OperationDetails, SessionDetails
from holdfast.runtime.store.rows import OperationKind, SessionRow, SnapshotRow
from holdfast.snapshots import manifest as manifests
from holdfast.snapshots.fitness import Name

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow, SnapshotRow
    from holdfast.snapshots.fitness import Name

undoes(OperationKind.RESTORE)(take_back_containers)


@dataclass(frozen=True, slots=True)
class Claim:
    """A session that continues here under its id: with the chain of its tenures, and the beginning one."""

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

    They have the snapshot's network options, or `network`, and `allow` and `deny` in addition; its limits,
    or the ones in `limits` (memory, cpus, pids, or rules in place of its own); and `details` from the
    start. `on_touch`: their large heaps are loaded when they are touched. `identity`: the only session is
    not a copy, but a session itself, which continues under its id.

    Raises:
        InvalidArgument: the options are not valid.
        LiveUnsupported: live sessions, or the requested rung, are not possible on this machine.
        QuotaReached: these are more than the quota of the home.
        SessionExists, SnapshotDamaged, RestoreFailed: nothing is left of any of them.
    """
    assert identity is None or count == 1, "a session is one"
    if snapshot.state == "pending":
        raise SnapshotDamaged(f"cannot restore {snapshot.name}: it is not complete")
    if name is not None:
        ids.check_name(name if count == 1 else f"{name}-{count}")
    quotas.check_copies(context.home.place, count, context.user)
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
            "name": name or restoring.manifest.session_name,
            "image": restoring.manifest.image,
            "options": options,
            "parent_snapshot_id": restoring.snapshot.id,
            "generation": restoring.manifest.generation + 1,
        }
        return session_identity.take_over(context.store, session_id, identity.chain, columns, known)
    return provision.register(
        context.store,
        name,
        restoring.manifest.image,
        options,
        session_id=session_id,
        parent_snapshot_id=restoring.snapshot.id,
        generation=restoring.manifest.generation + 1,
        details=known,
    )


def recover(
    context: Context,
    snapshot: SnapshotRow,
    name: str | None,
    rung: Name | None = None,
    network: str | None = None,
    allow: Sequence[str] = (),
    deny: Sequence[str] = (),
    details: SessionDetails | None = None,
) -> SessionRow:
    """Have the session that a snapshot was taken of continue from it; the options are a restore's.

    This home's memory of it applies again: its labels, its policy, and its clients' settings; or `details`,
    if they are given. Its life begins again.

    Raises:
        SessionExists: it is here, or another home of this engine has it, or the name is taken, or two
            machines have continued it.
        HoldfastError: as a restore does.
    """
    manifest = manifests.read(context.home.snapshots / snapshot.id)
    before = context.store.find_session(manifest.session, removed=True)
    if before is not None and before.state != "removed":
        raise SessionExists(
            f"cannot restore {snapshot.name} under its own id: session {before.name} ({before.id}) is here",
            hint=f"`holdfast rewind {before.name} {snapshot.name}` takes it back to that snapshot; "
            "a restore without --keep-id makes a copy",
        )
    containers = context.engine.containers(holdfast_session=manifest.session).values()
    if any(found.get("holdfast.home") != context.home.digest for found in containers):
        raise SessionExists(
            f"cannot restore {snapshot.name} under its own id: another home of this engine has session "
            f"{manifest.session_name} ({manifest.session})",
            hint="remove it there; a restore without --keep-id makes a copy",
        )
    chain = _chain(context, before, snapshot)
    known = before.details if before is not None else SessionDetails()
    moved_to, known = known.moved_to, details if details is not None else known
    remembered = ("labels", "policy", "sandbox", "agent")
    details = SessionDetails({key: known[key] for key in remembered if key in known})
    if lifetime.DETAIL in known or "sandbox" in known:
        details = details.plus(lifetime=Lifetime.of(known).begun_again(time.time()).as_dict())
    if moved_to:
        context.progress(
            f"session {manifest.session} had moved to {moved_to}: if it runs there, two machines have it"
        )
    claim = Claim(manifest.session, chain, ids.new_id())
    made = restore(
        context,
        snapshot,
        name or manifest.session_name,
        1,
        rung,
        network,
        allow,
        deny,
        details,
        identity=claim,
    )
    return made[0]


def _chain(context: Context, before: SessionRow | None, snapshot: SnapshotRow) -> Tenures:
    """Return the longer one of two chains: this home's, and the snapshot's."""
    store = context.store
    mine = Tenures.parse(before.details.tenures) if before is not None else Tenures()
    theirs = session_identity.travelling(store, snapshot)
    parted = bool(mine.chain and theirs.chain) and mine.relation(theirs) == "parted"
    if parted and before is not None and before.details.moved_to:
        raise SessionExists(
            f"cannot restore {snapshot.name} under its own id: that session has continued "
            "differently here than in the snapshot",
            hint="a restore without --keep-id makes a copy",
        )
    if mine.chain and not parted and (not theirs.chain or mine.relation(theirs) != "later"):
        return mine
    chain = theirs if theirs.chain else Tenures.begun(snapshot.created_at.timestamp(), "")
    if before is not None and not mine.chain:
        store.keep_details(before.id, tenures=chain.kept())
    return chain
