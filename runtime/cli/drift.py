"""Verb: drift."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.runtime.cli import output
from holdfast.runtime.cli.arguments import Json, SessionRef, controller, wants_json

Limit = Annotated[int, typer.Option("--limit", help="About how many lines each list has.", min=1)]
Every = Annotated[bool, typer.Option("--files", help="Every file, not folded into folders.")]
All = Annotated[bool, typer.Option("--all", help="Caches and the like, too.")]


def drift(
    session: SessionRef,
    since: Annotated[
        str,
        typer.Option(
            "--since",
            metavar="MOMENT",
            help="A snapshot, a journal entry (#12), a command's id, 10m, or a time.",
        ),
    ],
    limit: Limit = 12,
    files: Every = False,
    everything: All = False,
    json: Json = False,
) -> None:
    """Tell what changed in a session since a moment, and by whom."""
    found = controller().session(session)
    told = found.drift(since, everything=everything)
    if wants_json(json):
        output.emit({"id": found.id, "name": found.name, **told.as_dict()})
    else:
        output.say(told.text(limit, every_file=files))
