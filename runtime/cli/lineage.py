"""Verb: rewind."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.runtime.cli import output
from holdfast.runtime.cli.arguments import Json, Reason, SessionRef, SnapshotRef, controller, wants_json


def rewind(
    session: SessionRef,
    snapshot: SnapshotRef,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="LABEL", help="Keep the present under this label.")
    ] = None,
    discard: Annotated[
        bool, typer.Option("--discard", help="Do not keep the present: what is in no snapshot is lost.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also to a snapshot of another session's lineage.")
    ] = False,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Take a session back to a snapshot, in place: `@-1` is the last one. The present is kept."""
    found = (
        controller().session(session).rewind(snapshot, keep=keep, discard=discard, force=force, reason=reason)
    )
    if wants_json(json):
        output.emit(found.as_dict())
        return
    output.say(found.session.name)
    if found.kept is not None:
        output.note(f"what it held is kept in snapshot {found.kept.name}")
    if found.lost:
        output.note(f"{found.lost} commands came after that and are in no snapshot")
    for deviation in found.deviations:
        output.note(deviation)
