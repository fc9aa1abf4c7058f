"""Verbs: snapshot, template, restore, fork, suspend, resume, rmi."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.errors import SnapshotNotFound
from holdfast.runtime.cli import capture_actions, fitness_verbs, printing
from holdfast.runtime.cli.arguments import (
    Allow,
    EitherRef,
    Json,
    NameOption,
    Network,
    Reason,
    SessionRef,
    SnapshotRef,
    SnapshotRefs,
)
from holdfast.runtime.cli.caller import controller, wants_json

if TYPE_CHECKING:
    from holdfast.runtime.api.snapshot import Snapshot


def snapshot(
    session: SessionRef,
    label: Annotated[str | None, typer.Option("--label", "-l", help="A name for the snapshot.")] = None,
    kind: Annotated[str, typer.Option("--kind", help="`live` or `filesystem`.")] = "live",
    reason: Reason = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only show what would survive; exit code 3 if something blocks.")
    ] = False,
    all_: Annotated[
        bool, typer.Option("--all", help="With --check: include the supervisor's own resources.")
    ] = False,
    force_drop: Annotated[
        list[str] | None,
        typer.Option(
            "--force-drop",
            metavar="pid:N|fd:N/M",
            help="Do without what blocks: end that process and its descendants first, or leave that "
            "descriptor out of copies.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Capture a session at one instant. It keeps running."""
    raise typer.Exit(
        capture_actions.snapshot(
            session,
            label=label,
            kind=kind,
            reason=reason,
            check=check,
            all_=all_,
            force_drop=force_drop,
            json=json,
        )
    )


def template(
    session: SessionRef,
    name: Annotated[str, typer.Option("--name", help="Name of the template.")],
    replace: Annotated[bool, typer.Option("--replace", help="Replace the template of that name.")] = False,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Capture a session as a template: `new --template NAME` starts where it is now."""
    made = controller().session(session).template(name, replace=replace, reason=reason)
    if wants_json(json):
        printing.emit(made.as_dict())
    else:
        printing.say(made.name)


def _snapshot(ref: str) -> Snapshot:
    """Return a snapshot; a session of that name is told apart."""
    holdfast = controller()
    try:
        return holdfast.snapshot(ref)
    except SnapshotNotFound as error:
        if any(ref in (each.name, each.id) for each in holdfast.sessions()):
            hint = f"it is a session: `holdfast fork {ref}` copies it, `rewind` takes it back to a snapshot"
            raise SnapshotNotFound(str(error), hint=hint) from None
        raise


def restore(
    snapshot: SnapshotRef,
    name: NameOption = None,
    as_: fitness_verbs.As = None,
    require: fitness_verbs.Require = None,
    run_commands: fitness_verbs.RunCommands = False,
    network: Network = None,
    allow: Allow = None,
    keep_id: Annotated[
        bool, typer.Option("--keep-id", help="No copy: the session itself, under its id and name.")
    ] = False,
    json: Json = False,
) -> None:
    """Start a new session from a snapshot. Exit code 3 if that is not possible on this machine."""
    fitness_verbs.check_commands(as_, run=run_commands)
    found, as_json = _snapshot(snapshot), wants_json(json)
    made = fitness_verbs.restore(
        found, name, as_, require, network=network, allow=allow or (), keep_id=keep_id, as_json=as_json
    )
    again = fitness_verbs.run_commands(found, made, as_json=as_json) if run_commands else []
    if as_json:
        ran = {"commands": [one.as_dict() for one in again]} if run_commands else {}
        printing.emit({**made.as_dict(), **ran})
    else:
        printing.say(made.name)


def fork(
    source: EitherRef,
    name: Annotated[str | None, typer.Option("--name", help="Name; with -n: NAME-1, NAME-2, …")] = None,
    count: Annotated[int, typer.Option("-n", "--count", help="How many copies.")] = 1,
    network: Network = None,
    allow: Allow = None,
    eager: Annotated[
        bool, typer.Option("--eager", help="Load all memory now; else large heaps when they are touched.")
    ] = False,
    json: Json = False,
) -> None:
    """Start copies of a session's present state, or of a snapshot."""
    made = controller().fork(source, count, name, network=network, allow=allow or (), eager=eager)
    if wants_json(json):
        printing.emit([session.as_dict() for session in made])
    else:
        for session in made:
            printing.say(session.name)


def suspend(session: SessionRef, json: Json = False) -> None:
    """Capture a session and free its memory until it is resumed."""
    found = controller().session(session).suspend()
    if wants_json(json):
        printing.emit(found.as_dict())


def resume(
    session: SessionRef,
    here: Annotated[
        bool, typer.Option("--here", help="Even if a move was cut short, and it can be running there.")
    ] = False,
    json: Json = False,
) -> None:
    """Continue a suspended session, or start a dead one again on its files."""
    found = controller().session(session).resume(here=here)
    if wants_json(json):
        printing.emit(found.as_dict())


def rmi(snapshots: SnapshotRefs, json: Json = False) -> None:
    """Delete snapshots."""
    with controller() as holdfast:
        found = holdfast.remove_snapshots(*snapshots)
    if wants_json(json):
        printing.emit([{"id": item.id, "name": item.name} for item in found])
