"""The result of a restore's verification: stored with the session, in its journal, and reported in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.runtime.journal import host_events
from holdfast.snapshots.verification import Verification

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow

__all__ = ["Verification", "note", "of", "report", "stored"]

MOST_LINES = 5


def stored(found: Verification) -> dict[str, Any]:
    """Return the result in the form of a session's details."""
    return found.model_dump(mode="json", exclude_defaults=True)


def note(context: Context, session: SessionRow, found: Verification) -> None:
    """Record the result in the session's journal."""
    host_events.note(
        context,
        session.id,
        "verified",
        actor="system",
        compared=found.compared,
        deviations=[str(one) for one in found.deviations[:MOST_LINES]] or None,
        deviating=(len(found.deviations) + found.more) or None,
    )


def report(context: Context, session: SessionRow, found: Verification) -> None:
    """Report deviations."""
    for one in found.deviations[:MOST_LINES]:
        context.progress(f"{session.name} differs from the capture: {one}")
    beyond = len(found.deviations) + found.more - MOST_LINES
    if beyond > 0:
        context.progress(f"{session.name}: {beyond} more deviations; see `--json`")


def of(session: SessionRow) -> Verification | None:
    """Return the result of a session's last restore; None if it was never restored with its processes."""
    fields = session.details.verification
    return None if fields is None else Verification.model_validate(fields)
