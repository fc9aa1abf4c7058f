"""Sessions that come to a node from their durable copies, and sessions that a node lets go.

A returning one is the same session: its id, name, labels, lifetime and client settings. Its journal says
what was lost, and calls under keys that the copy lacks are answered `outcome_unknown` rather than made
again. One that is let go never runs again here: all its processes are killed while they are frozen, its
files are kept for a day, and then it is removed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast.base import polling
from holdfast.base.text import plain
from holdfast.engine import frozen_groups
from holdfast.errors import HoldfastError, InvalidArgument, SnapshotNotFound
from holdfast.runtime.capture import snapshot_service
from holdfast.runtime.guest_rpc.idempotency import Intents
from holdfast.runtime.journal import host_events
from holdfast.runtime.lifecycle import teardown
from holdfast.runtime.moving import travelling_identity
from holdfast.runtime.node.durable_copies import TRIGGER
from holdfast.runtime.restore import restore_service
from holdfast.runtime.sessions import health
from holdfast.runtime.sessions.session_lock import turn
from holdfast.runtime.storage import snapshot_storage
from holdfast.runtime.store import policy, timelines
from holdfast.runtime.store.row_details import SessionDetails
from holdfast.runtime.transfer import push_pull
from holdfast.runtime.transfer.transfer_options import ReceiveOptions

if TYPE_CHECKING:
    from holdfast.runtime.cluster.cluster_rows import DurableCopy, SessionGrant
    from holdfast.runtime.node.durable_copies import Registry
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow, SnapshotRow

RECOVERED = "recovered"
SET_ASIDE = "set_aside"
DAY = 86_400.0
FREEZE_SECONDS, KILL_SECONDS = 5.0, 10.0
MOST_TOLD = 20
"""Commands that an event names; it counts the others."""


def bring_back(context: Context, grant: SessionGrant, registry: Registry) -> SessionRow:
    """Have a session continue here from its copy, under its id and name.

    Raises:
        HoldfastError: nothing of it runs here.
    """
    copy = grant.copy
    if copy is None:
        raise InvalidArgument(f"cannot bring {grant.name} back: it has no durable copy")
    snapshot = _fetched(context, copy, registry)
    row = restore_service.recover(context, snapshot, grant.name, details=_known(snapshot))
    if grant.recovery is not None:
        _tell(context, row, grant.recovery)
    return context.store.session(row.id)


def _fetched(context: Context, copy: DurableCopy, registry: Registry) -> SnapshotRow:
    """Return the snapshot of a copy: the local one, if this node has made it, or from the registry."""
    with suppress(SnapshotNotFound, InvalidArgument):
        here = context.store.snapshot(copy.snapshot)
        if here.id == copy.snapshot and here.state == "ready" and here.session_id == copy.session:
            return here
    wire = push_pull.registry_wire(copy.reference, plain_http=registry.plain_http)
    # The row of the copy is the word of the cluster; the registry only keeps what has this digest.
    vouched = copy.reference.partition("@")[2]
    return push_pull.pull(context, wire, ReceiveOptions(vouched=vouched))


def _known(snapshot: SnapshotRow) -> SessionDetails:
    """Return the identity, lifetime and labels that a session gets back."""
    about = snapshot.details.about or {}
    found = travelling_identity.parse(about.get("identity"))
    if found is None:
        return SessionDetails()
    return SessionDetails().plus(
        labels=found.labels or None,
        sandbox=found.sandbox,
        lifetime=found.lifetime,
        policy=_policy(about.get("policy")),
    )


def _policy(given: object) -> dict[str, Any] | None:
    try:
        return policy.parse(given).as_dict() if isinstance(given, Mapping) else None
    except (InvalidArgument, TypeError):
        return None


def _tell(context: Context, row: SessionRow, recovery: Mapping[str, Any]) -> None:
    """Note lost work in a session's journal, and that calls under lost keys have run, or can have."""
    commands = [each for each in recovery.get("commands") or () if isinstance(each, Mapping)]
    intents = Intents(context.home.intents / f"{row.id}.jsonl", timelines.rewound_at(row))
    for each in commands:
        if key := each.get("key"):
            intents.lose(str(key))
    texts = [plain(str(each.get("text") or ""), 80) for each in commands]
    host_events.note(
        context,
        row.id,
        RECOVERED,
        actor="system:cluster",
        lost_seconds=_rounded(recovery.get("lost_s")),
        at_most_seconds=_rounded(recovery.get("at_most_s")),
        node=recovery.get("node"),
        commands=texts[-MOST_TOLD:],
        lost_commands=len(texts),
    )


def _rounded(found: Any) -> float | None:
    return round(float(found), 1) if isinstance(found, int | float) else None


def let_go(context: Context, row: SessionRow, why: str) -> None:
    """End a session that is another node's, or that was removed, and keep its files for a day.

    Raises:
        HoldfastError: it is still here, and must not run: it stays frozen.
    """
    if row.container_id is not None:
        kill_frozen(context, row.container_id)
    with suppress(HoldfastError):
        ended = context.store.find_session(row.id)
        if ended is not None and health.ended(context, ended) is not None:
            auto = {"trigger": SET_ASIDE, "what": plain(why, 80)}
            with turn(context, ended, "set aside", usable=False) as held:
                snapshot_service.capture(context, held, None, "filesystem", None, auto)
    host_events.note(context, row.id, SET_ASIDE, actor="system:cluster", why=why)
    context.store.keep_details(row.id, cluster=None)
    teardown.remove(context, row.id)


def kill_frozen(context: Context, container: str) -> None:
    """Kill every process of a container before any of them can run again."""
    state = context.engine.inspect(container)
    if state is None or not state.running:
        return
    with suppress(OSError):
        frozen_groups.freeze(container, state.pid)
        polling.until(lambda: frozen_groups.is_frozen(container, state.pid), FREEZE_SECONDS)
        polling.until(lambda: _killed(container, state.pid), KILL_SECONDS, 0.02)
    polling.until(lambda: _ended(context, container), KILL_SECONDS, 0.05)


def _killed(container: str, pid: int) -> bool:
    """Kill what is left in a container; return whether nothing is."""
    left = frozen_groups.members(container, pid)
    for each in left:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    # A signal that is pending is the first thing that a thawed process meets. The keeper may freeze again
    # what has not met it yet.
    frozen_groups.thaw(container, pid)
    return not left


def _ended(context: Context, container: str) -> bool:
    state = context.engine.inspect(container)
    return state is None or not state.running


def forget_set_aside(context: Context, now: float | None = None) -> None:
    """Remove snapshots, more than a day old, of sessions that this node no longer has: files that were set
    aside, and captures for copies.
    """
    now = time.time() if now is None else now
    here = {row.id for row in context.store.sessions()}
    used = {row.parent_snapshot_id for row in context.store.sessions()}
    for row in context.store.snapshots():
        trigger = (row.details.auto or {}).get("trigger")
        left = trigger == SET_ASIDE or (trigger == TRIGGER and row.session_id not in here)
        if left and not row.pinned and row.id not in used and now - row.created_at.timestamp() > DAY:
            with suppress(HoldfastError):  # one that something needs stays
                snapshot_storage.remove_snapshot(context, row)
