"""Verbs of results: report, artifact ls, artifact get, artifact rm."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option

NAME = argument("NAME", help="Name of an artifact.")
OF = option("--session", metavar="S", help="Name or id of the session, also of a removed one.")


@examples("report --since 1d")
def report(
    since: str = option(
        "--since", default="7d", metavar="TIME", help="An age (7d, 12h) or a time (2026-01-31T12:00)."
    ),
    json: bool = JSON,
) -> None:
    """Show the work done on tasks, its actors and its verification: in all sessions, including removed
    ones."""
    from holdfast.runtime.history.drift.starting_point import time_of

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


@examples("artifact ls")
def list_(session: str | None = OF, json: bool = JSON) -> None:
    """List artifacts, also of removed sessions."""
    found = controller().artifacts.list(session)
    if wants_json(json):
        printing.emit([each.as_dict() for each in found])
        return
    printing.table(
        ("NAME", "SIZE", "SESSION", "MADE BY", "SNAPSHOT", "REGISTERED", "DIGEST"),
        (
            (
                each.name,
                printing.size(each.bytes),
                each.session,
                each.entry or "",
                each.snapshot or "",
                f"{each.at:%Y-%m-%d %H:%M}",
                each.digest[7:19],
            )
            for each in found
        ),
    )


@examples("artifact get report .")
def get(
    name: str = NAME,
    to: str = argument("[TO]", default=".", help="File or folder; `-`: standard output."),
    session: str | None = OF,
    json: bool = JSON,
) -> None:
    """Save an artifact as a file."""
    artifacts = controller().artifacts
    if to == "-":
        if sys.stdout.isatty():
            raise InvalidArgument("cannot write an artifact to a terminal", hint="name a file or folder")
        for part in artifacts.parts(name, session):
            sys.stdout.buffer.write(part)
        return
    saved = artifacts.save(name, to, session=session)
    if wants_json(json):
        printing.emit({"name": name, "path": str(saved)})
    else:
        printing.say(str(saved))


@examples("artifact rm report")
def remove(name: str = NAME, session: str | None = OF, json: bool = JSON) -> None:
    """Remove an artifact from the home."""
    gone = controller().artifacts.remove(name, session)
    if wants_json(json):
        printing.emit(gone.as_dict())
    else:
        printing.say(gone.name)
