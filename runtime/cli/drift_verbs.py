"""Verb: drift."""

from __future__ import annotations

from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, SESSION_REF
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import REQUIRED, examples, option

LIMIT = option("--limit", default=12, help="Most lines in each list, roughly.", least=1)
EVERY = option("--files", help="List every file instead of folding them into folders.")
ALL = option("--all", help="Include caches and similar noise.")


@examples("drift work --since before")
def drift(
    session: str = SESSION_REF,
    since: str = option(
        "--since",
        default=REQUIRED,
        metavar="MOMENT",
        help="A snapshot, a journal entry (#12), a command's id, an age (10m) or a time.",
    ),
    limit: int = LIMIT,
    files: bool = EVERY,
    everything: bool = ALL,
    json: bool = JSON,
) -> None:
    """Show what has changed in a session since a moment, and who changed it."""
    found = controller().session(session)
    result = found.drift(since, everything=everything)
    if wants_json(json):
        printing.emit({"id": found.id, "name": found.name, **result.as_dict()})
    else:
        printing.say(result.text(limit, every_file=files))
