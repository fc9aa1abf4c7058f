"""Verb: drift."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import Json, SessionRef
from holdfast.runtime.cli.caller import controller, wants_json

Limit = Annotated[int, typer.Option("--limit", help="Most lines in each list, roughly.", min=1)]
Every = Annotated[bool, typer.Option("--files", help="List every file instead of folding them into folders.")]
All = Annotated[bool, typer.Option("--all", help="Include caches and similar noise.")]


def drift(
    session: SessionRef,
    since: Annotated[
        str,
        typer.Option(
            "--since",
            metavar="MOMENT",
            help="A snapshot, a journal entry (#12), a command's id, an age (10m) or a time.",
        ),
    ],
    limit: Limit = 12,
    files: Every = False,
    everything: All = False,
    json: Json = False,
) -> None:
    """Show what has changed in a session since a moment, and who changed it."""
    found = controller().session(session)
    result = found.drift(since, everything=everything)
    if wants_json(json):
        printing.emit({"id": found.id, "name": found.name, **result.as_dict()})
    else:
        printing.say(result.text(limit, every_file=files))
