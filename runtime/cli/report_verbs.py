"""Verb: report."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import examples, option


@examples("report --since 1d")
def report(
    since: str = option(
        "--since", default="7d", metavar="TIME", help="An age (7d, 12h) or a time (2026-01-31T12:00)."
    ),
    json: bool = JSON,
) -> None:
    """Show what was done on tasks, by whom, and verified how: in all sessions, removed ones included."""
    from holdfast.runtime.history.drift.since import time_of

    begin = time_of(since, datetime.now().astimezone())
    if begin is None:
        raise InvalidArgument(
            f"cannot report since '{plain(since, 60)}': it is not a time",
            hint="for example `--since 7d` or `--since 2026-01-31T12:00`",
        )
    found = controller().report(datetime.fromtimestamp(begin, UTC))
    if wants_json(json):
        printing.emit(found.as_dict())
        return
    for line in found.text().splitlines():
        printing.say(line)
