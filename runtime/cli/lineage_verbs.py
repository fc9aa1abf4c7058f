"""Verbs: snapshots, rewind."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, REASON, SESSION_REF, SNAPSHOT_REF
from holdfast.runtime.cli.caller import context_of, controller, wants_json
from holdfast.runtime.cli.grammar import examples, option

WIDE = 120
"""Columns of a tree that is not shown in a terminal."""


@examples("snapshots", "snapshots --tree")
def snapshots(
    tree: bool = option("--tree", help="Show a tree, with sessions and the commands run in between."),
    session: str | None = option(
        "--session", "-s", metavar="SESSION", help="Only this session's ancestors and own snapshots."
    ),
    json: bool = JSON,
) -> None:
    """List snapshots: kind, size, age, reason and parent."""
    from holdfast.runtime.history.lineage.draw_tree import Form, draw
    from holdfast.runtime.history.lineage.overview import marks, overview, why
    from holdfast.runtime.journal.journal_query import find
    from holdfast.runtime.storage import snapshot_storage

    as_json = wants_json(json)
    holdfast = controller()
    if not isinstance(holdfast, Holdfast) and not tree and session is None:
        _listed(holdfast.snapshots(), as_json=as_json)
        return
    context = context_of(holdfast, "snapshots --tree")
    found = overview(context, with_ran=tree or as_json)
    if session is not None:
        found = found.of(find(context, session))
    now = datetime.now(UTC)
    if as_json:
        taken = [{**Snapshot(context, row).as_dict(), **found.as_dict(row)} for row in found.snapshots]
        going = [{**Session(context, row).as_dict(), **found.as_dict(row)} for row in found.sessions]
        if tree:
            printing.emit({"snapshots": taken, "sessions": going})
        else:
            printing.emit(taken)
    elif tree:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDE
        for line in draw(found, Form(width, now, printing.size, printing.ago)):
            printing.say(line)
    else:
        snapshot_storage.report_trouble(context)
        names = {row.id: row.name for row in found.snapshots}
        printing.table(
            ("NAME", "KIND", "SIZE", "AGE", "OF", "AFTER", "", "WHY"),
            (
                (
                    row.name,
                    row.kind,
                    printing.size(row.bytes),
                    printing.ago(row.created_at, now),
                    found.names.get(row.session_id, row.session_id),
                    names.get(found.above.get(row.id) or "", "-"),
                    ", ".join(marks(row)),
                    why(row),
                )
                for row in found.snapshots
            ),
        )


def _listed(found: Sequence[Snapshot], *, as_json: bool) -> None:
    """Print snapshots as a server tells them, without what only the home's own records say."""
    if as_json:
        printing.emit([one.as_dict() for one in found])
        return
    now = datetime.now(UTC)
    printing.table(
        ("NAME", "KIND", "SIZE", "AGE", "WHY"),
        (
            (one.name, one.kind, printing.size(one.size), printing.ago(one.created_at, now), one.reason or "")
            for one in found
        ),
    )


@examples("rewind work before", "rewind work before --discard    # keep nothing of the present")
def rewind(
    session: str = SESSION_REF,
    snapshot: str = SNAPSHOT_REF,
    keep: str | None = option("--keep", metavar="LABEL", help="Label for the snapshot of the present state."),
    discard: bool = option(
        "--discard", help="Do not snapshot the present state: changes since the last one are lost."
    ),
    force: bool = option("--force", help="Allow a snapshot of another session's lineage."),
    reason: str | None = REASON,
    json: bool = JSON,
) -> None:
    """Take a session back to a snapshot, in place (`@-1`: the last one). The present is captured first."""
    found = (
        controller().session(session).rewind(snapshot, keep=keep, discard=discard, force=force, reason=reason)
    )
    if wants_json(json):
        printing.emit(found.as_dict())
        return
    printing.say(found.session.name)
    if found.kept is not None:
        printing.note(f"what it held is kept in snapshot {found.kept.name}")
    if found.lost:
        printing.note(f"{found.lost} commands came after that and are in no snapshot")
    for deviation in found.deviations:
        printing.note(deviation)
