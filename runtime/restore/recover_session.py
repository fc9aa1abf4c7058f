"""A session itself that continues from one of its snapshots, under its id, and not a copy of it.

For sessions whose machine is lost, and for those that were removed here. Whether another machine still runs
one cannot be known here; the first contact with it shows that (`runtime/sessions/session_identity.py`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.base import ids
from holdfast.errors import SessionExists
from holdfast.runtime.restore import restore_service
from holdfast.runtime.sessions import session_identity
from holdfast.runtime.sessions.tenures import Tenures
from holdfast.runtime.store import lifetime
from holdfast.runtime.store.lifetime import Lifetime
from holdfast.runtime.store.row_details import SessionDetails
from holdfast.snapshots import manifest

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow, SnapshotRow
    from holdfast.snapshots.fitness import Name


def recover(
    context: Context,
    snapshot: SnapshotRow,
    name: str | None,
    rung: Name | None = None,
    network: str | None = None,
    allow: Sequence[str] = (),
    deny: Sequence[str] = (),
) -> SessionRow:
    """Have the session that a snapshot was taken of continue from it; the options are those of a restore.

    What this home remembers of it applies again: its labels, its policy, and what its clients said of it. Its
    life begins again.

    Raises:
        SessionExists: it is here, or another home of this engine has it, or the name is taken, or two
            machines have continued it.
        HoldfastError: as a restore does.
    """
    kept = manifest.read(context.home.snapshots / snapshot.id)
    before = context.store.find_session(kept.session, removed=True)
    if before is not None and before.state != "removed":
        raise SessionExists(
            f"cannot restore {snapshot.name} under its own id: session {before.name} ({before.id}) is here",
            hint=f"`holdfast rewind {before.name} {snapshot.name}` takes it back to there; a restore without "
            "--keep-id makes a copy",
        )
    containers = context.engine.containers(holdfast_session=kept.session).values()
    if any(found.get("holdfast.home") != context.home.digest for found in containers):
        raise SessionExists(
            f"cannot restore {snapshot.name} under its own id: another home of this engine has session "
            f"{kept.session_name} ({kept.session})",
            hint="remove it there; a restore without --keep-id makes a copy",
        )
    chain = _chain(context, before, snapshot)
    known = before.details if before is not None else SessionDetails()
    remembered = ("labels", "policy", "sandbox", "agent")
    details = SessionDetails({key: known[key] for key in remembered if key in known})
    if lifetime.DETAIL in known or "sandbox" in known:
        details = details.plus(lifetime=Lifetime.of(known).begun_again(time.time()).as_dict())
    if known.moved_to:
        context.progress(
            f"session {kept.session} had moved to {known.moved_to}: if it runs there, two machines have it"
        )
    claim = restore_service.Claim(kept.session, chain, ids.new_id())
    made = restore_service.restore(
        context, snapshot, name or kept.session_name, 1, rung, network, allow, deny, details, identity=claim
    )
    return made[0]


def _chain(context: Context, before: SessionRow | None, snapshot: SnapshotRow) -> Tenures:
    """Return the longer one of two chains: that of this home, and that of the snapshot."""
    store = context.store
    mine = Tenures.parse(before.details.tenures) if before is not None else Tenures()
    theirs = session_identity.travelling(store, snapshot)
    parted = bool(mine.chain and theirs.chain) and mine.relation(theirs) == "parted"
    if parted and before is not None and before.details.moved_to:
        raise SessionExists(
            f"cannot restore {snapshot.name} under its own id: what was here of that session has continued "
            "elsewhere than what is in the snapshot",
            hint="a restore without --keep-id makes a copy",
        )
    if mine.chain and not parted and (not theirs.chain or mine.relation(theirs) != "later"):
        return mine
    chain = theirs if theirs.chain else Tenures.begun(snapshot.created_at.timestamp(), "")
    if before is not None and not mine.chain:
        store.keep_details(before.id, tenures=chain.kept())
    return chain
