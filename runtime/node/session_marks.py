"""The marks in a home's store of the sessions that its node has in the cluster.

The mark of a session (`Clustered`) says under which epoch it is here. It is written once the session runs,
and removed before the session is let go: one without a mark does not belong to anyone else, or was never
finished.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.base import node_lease
from holdfast.runtime.cluster.cluster_rows import Held
from holdfast.runtime.cluster.lease_rules import Present
from holdfast.runtime.store.policy import Policy
from holdfast.runtime.store.row_details import Clustered

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow

ADOPTED = ("running",)
"""States in which a session that the cluster does not know becomes one of its."""


@dataclass(frozen=True, slots=True)
class HomeSessions:
    """The sessions of a home, as its node sees them.

    `present` exist here, frozen or not; `new` are not known to the cluster yet; `removed` were the node's
    when their owners removed them.
    """

    present: tuple[Present, ...]
    new: tuple[SessionRow, ...]
    removed: tuple[Held, ...]


def look(context: Context) -> HomeSessions:
    """Return the sessions of a home."""
    frozen = set(node_lease.read_frozen(context.home).containers.values())
    return sorted_out(context.store.sessions(removed=True), frozen)


def sorted_out(rows: Iterable[SessionRow], frozen: set[str]) -> HomeSessions:
    """Return rows as a node sees them; `frozen` are ids of sessions.  Pure."""
    present, new, removed = [], [], []
    for row in rows:
        mark = row.details.cluster
        held = None if mark is None else Held(row.id, mark.epoch)
        if row.state == "removed":
            removed += [held] if held is not None else []
        elif held is not None:
            present.append(Present(held, row.id in frozen))
        elif row.state in ADOPTED:
            new.append(row)
    return HomeSessions(tuple(present), tuple(new), tuple(removed))


def mark(context: Context, session: str, epoch: int, loss: float) -> None:
    """Record that a session runs here under this epoch; earlier knowledge of its copies under it stays."""
    row = context.store.session(session)
    before = row.details.cluster
    kept = before if before is not None and before.epoch == epoch else Clustered(epoch)
    context.store.keep_details(session, cluster=replace(kept, loss=loss).as_dict())


def unmark(context: Context, session: str) -> None:
    """Record that a session is no longer the node's."""
    context.store.keep_details(session, cluster=None)


def loss_of(row: SessionRow, usual: float) -> float:
    """Return how many seconds of work the loss of a session's machine can cost; 0 for no promise."""
    return Policy.of(row.details).durable or usual
