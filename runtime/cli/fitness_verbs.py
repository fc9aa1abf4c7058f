"""Verb: fits; and what `restore` does when the machine cannot provide all of a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, LiveUnsupported
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import Json, snapshot_names
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.restore.compat.choose_rung import best, check, choose_rung

if TYPE_CHECKING:
    from holdfast.runtime.api.redo_snapshot import Again
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.api.snapshot import Snapshot
    from holdfast.snapshots.fitness import Ladder, Name

IMPOSSIBLE = 3
"""Exit code for a rung that this machine cannot provide."""

As = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="RUNG",
        help="Take this: `live`; `commands` (files and a script of the recorded commands); `files`.",
    ),
]
Require = Annotated[
    str | None,
    typer.Option("--require", metavar="RUNG", help="Take the best that is possible, but at least this."),
]
RunCommands = Annotated[
    bool, typer.Option("--run-commands", help="With --as commands: run them as well, in order.")
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="SNAPSHOT|FILE|REFERENCE",
        help="A snapshot, an exported file or a registry reference.",
        autocompletion=snapshot_names,
    ),
]


def fits(
    snapshot: Source,
    require: Annotated[
        str | None,
        typer.Option("--require", metavar="RUNG", help="Exit with 3 if not at least this is possible here."),
    ] = None,
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
    if best(found, wanted or "files") is None:
        raise typer.Exit(IMPOSSIBLE)


def restore(
    snapshot: Snapshot,
    name: str | None,
    as_: str | None,
    require: str | None,
    *,
    network: str | None,
    allow: Sequence[str],
    keep_id: bool,
    as_json: bool,
) -> Session:
    """Restore the requested rung. One this machine cannot provide is an error, with exit code 3."""
    wanted, least = rung(as_), rung(require)
    check(wanted, least, "restore")
    try:
        if least is not None and wanted is None:
            wanted = choose_rung(snapshot.fits(), None, least, verb="restore", source=snapshot.name)
        return snapshot.restore(name, rung=wanted, network=network, allow=allow, keep_id=keep_id)
    except LiveUnsupported as error:
        printing.fail(error, as_json=as_json)
        raise typer.Exit(IMPOSSIBLE) from error


def check_commands(as_: str | None, *, run: bool) -> None:
    """Raise InvalidArgument if commands are to be run that were not requested."""
    if run and as_ != "commands":
        raise InvalidArgument("cannot run commands without --as commands", hint="add it, or leave them")


def run_commands(snapshot: Snapshot, session: Session, *, as_json: bool) -> list[Again]:
    """Run the recorded commands again, and report the outcome of each."""
    from holdfast.runtime.api import redo_snapshot

    def report(one: Again) -> None:
        first = plain(one.recorded.text.strip().partition("\n")[0], 80)
        was = "" if one.same else f", was {one.recorded.result}"
        printing.note(f"{first}: {one.left_out or f'{one.result}{was}'}")

    return redo_snapshot.replay(
        session, snapshot.recorded(), report=(lambda _one: None) if as_json else report
    )


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
