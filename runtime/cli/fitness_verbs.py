"""Verb: fits; and what `restore` does when the machine cannot provide all of a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, LiveUnsupported
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import Json, controller, snapshot_names, wants_json

if TYPE_CHECKING:
    from holdfast.runtime.api.replay_commands import Again
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.api.snapshot import Snapshot
    from holdfast.snapshots.fitness import Ladder, Name

IMPOSSIBLE = 3
"""Exit code for a rung that this machine cannot provide."""
RUNGS = ("live", "commands", "files")

As = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="RUNG",
        help="Take this: `live`; `commands` (files and a script of the recorded commands); `files`.",
    ),
]
Require = Annotated[
    str | None, typer.Option("--require", metavar="RUNG", help="Exit with 3 if this is not possible here.")
]


def fits(
    snapshot: Annotated[
        str,
        typer.Argument(
            metavar="SNAPSHOT|FILE|REFERENCE",
            help="A snapshot, an exported file or a registry reference.",
            autocompletion=snapshot_names,
        ),
    ],
    require: Require = None,
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="The registry uses HTTP without TLS.")
    ] = False,
    json: Json = False,
) -> None:
    """Show how much of a snapshot can run on this machine, and why no more. Starts nothing."""
    wanted = rung(require)
    found = controller().fits(snapshot, plain_http=plain_http)
    if wants_json(json):
        printing.emit(found.as_dict())
    else:
        _show(found)
    if not (found.best if wanted is None else found.rung(wanted).possible):
        raise typer.Exit(IMPOSSIBLE)


def restore(
    snapshot: Snapshot,
    name: str | None,
    as_: str | None,
    require: str | None,
    *,
    network: str | None,
    allow: Sequence[str],
    as_json: bool,
) -> Session:
    """Restore the requested rung. One this machine cannot provide is an error, with exit code 3."""
    wanted, least = rung(as_), rung(require)
    if wanted and least and RUNGS.index(wanted) > RUNGS.index(least):
        raise InvalidArgument(f"cannot require {least} of what is restored as {wanted}", hint="leave one out")
    if wanted is None and least is not None:
        # A lower rung is never taken unasked, so requiring less than all still means all.
        wanted = "live" if least == "live" or snapshot.kind == "live" else "files"
    try:
        return snapshot.restore(name, rung=wanted, network=network, allow=allow)
    except LiveUnsupported as error:
        printing.fail(error, as_json=as_json)
        raise typer.Exit(IMPOSSIBLE) from error


def run_commands(snapshot: Snapshot, session: Session, *, as_json: bool) -> list[Again]:
    """Run the recorded commands again, and report the outcome of each."""
    from holdfast.runtime.api import replay_commands

    def told(one: Again) -> None:
        first = plain(one.recorded.text.strip().partition("\n")[0], 80)
        was = "" if one.same else f", was {one.recorded.result}"
        printing.note(f"{first}: {one.left_out or f'{one.result}{was}'}")

    return replay_commands.run(session, snapshot.recorded(), told=(lambda _one: None) if as_json else told)


def rung(name: str | None) -> Name | None:
    """Return a name that is a rung, or None.

    Raises:
        InvalidArgument: there is no such rung.
    """
    match name:
        case None | "live" | "commands" | "files":
            return name
    raise InvalidArgument(f"cannot restore as '{plain(name, 40)}'", hint="live, commands or files")


def _show(found: Ladder) -> None:
    for rung in found.rungs:
        printing.say(f"{'yes' if rung.possible else 'no '}  {rung.name}")
        lines = [f"because {plain(reason, 300)}" for reason in rung.reasons]
        lines += [f"note: {plain(note, 300)}" for note in rung.notes]
        lines += [f"without {', '.join(rung.lost)}"] if rung.possible else []
        for line in lines:
            printing.say(f"       {line}")
