"""Verb: diff."""

from __future__ import annotations

from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.drift_verbs import ALL, EVERY, LIMIT
from holdfast.runtime.cli.grammar import argument, examples


@examples("diff before after", "diff before after --files")
def diff(
    before: str = argument("SNAP", help="Label or id of a snapshot."),
    after: str = argument("SNAP", help="Label or id of the second snapshot."),
    limit: int = LIMIT,
    files: bool = EVERY,
    everything: bool = ALL,
    json: bool = JSON,
) -> None:
    """Show what differs between two snapshots, on any branches."""
    result = controller().diff(before, after, everything=everything)
    if wants_json(json):
        printing.emit(result.as_dict())
    else:
        printing.say(result.text(limit, every_file=files))
