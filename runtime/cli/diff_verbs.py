"""Verb: diff."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import Json
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.drift_verbs import All, Every, Limit


def diff(
    before: Annotated[str, typer.Argument(metavar="SNAP", help="Label or id of a snapshot.")],
    after: Annotated[str, typer.Argument(metavar="SNAP", help="Label or id of the second snapshot.")],
    limit: Limit = 12,
    files: Every = False,
    everything: All = False,
    json: Json = False,
) -> None:
    """Show what differs between two snapshots, on any branches."""
    result = controller().diff(before, after, everything=everything)
    if wants_json(json):
        printing.emit(result.as_dict())
    else:
        printing.say(result.text(limit, every_file=files))
