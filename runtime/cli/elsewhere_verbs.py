"""Verbs between machines: fits, thaw, move, receive; and the part of a snapshot that this machine can
restore."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from holdfast.base.suggestion import command
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, LiveUnsupported
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import (
    ALLOW,
    AS,
    DENY,
    JSON,
    NAME_OPTION,
    NETWORK,
    REQUIRE,
    RUN_COMMANDS,
    SESSION_REF,
    snapshot_names,
)
from holdfast.runtime.cli.caller import context_of, controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option
from holdfast.runtime.cli.reporting import Exit
from holdfast.runtime.cli.transfer_verbs import (
    KEY_NAME,
    OPENING_PASSPHRASE,
    PASSPHRASE,
    PLAIN_HTTP,
    SECRETS,
    bar,
    given,
    opening_passphrase,
)
from holdfast.runtime.restore.compat.snapshot_ladder import best, check, choose_rung

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.api.redo_snapshot import Again
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.api.snapshot import Snapshot
    from holdfast.runtime.api.thawing import Thawed
    from holdfast.snapshots.fitness import Ladder, Name

IMPOSSIBLE = 3
"""Exit code for a rung that this machine cannot provide."""
SOURCE = argument(
    "SNAPSHOT|FILE|REFERENCE",
    help="A snapshot, an exported file or a registry reference.",
    names=snapshot_names,
)


@examples("fits before", "fits failure.holdfast")
def fits(
    snapshot: str = SOURCE,
    require: str | None = option(
        "--require", metavar="RUNG", help="Exit with 3 unless at least this is possible here."
    ),
    plain_http: bool = option("--plain-http", help="The registry uses HTTP without TLS."),
    json: bool = JSON,
) -> None:
    """Show how much of a snapshot can run on this machine, and the obstacles to more. Starts nothing."""
    wanted = rung(require)
    found = controller().fits(snapshot, plain_http=plain_http)
    if wants_json(json):
        printing.emit(found.as_dict())
    else:
        _show(found)
    if best(found, wanted or "files") is None:
        raise Exit(IMPOSSIBLE)


def restore(
    snapshot: Snapshot,
    name: str | None,
    as_: str | None,
    require: str | None,
    *,
    network: str | None,
    allow: Sequence[str],
    deny: Sequence[str],
    keep_id: bool,
    as_json: bool,
) -> Session:
    """Restore the requested rung. A rung this machine cannot provide is an error, with exit code 3."""
    wanted, least = rung(as_), rung(require)
    check(wanted, least, "restore")
    try:
        if least is not None and wanted is None:
            wanted = choose_rung(snapshot.fits(), None, least, verb="restore", source=snapshot.name)
        return snapshot.restore(name, rung=wanted, network=network, allow=allow, deny=deny, keep_id=keep_id)
    except LiveUnsupported as error:
        printing.fail(error, as_json=as_json)
        raise Exit(IMPOSSIBLE) from error


def check_commands(as_: str | None, *, run: bool) -> None:
    """Raise InvalidArgument if commands are to be run that were not requested."""
    if run and as_ != "commands":
        raise InvalidArgument(
            "cannot run commands without --as commands", hint=("add --as commands, or leave the commands out")
        )


def run_again(snapshot: Snapshot, session: Session, *, as_json: bool) -> list[Again]:
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
        InvalidArgument: the rung does not exist.
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


@examples("thaw captured/tests-test_a.py-test_total.holdfast")
def thaw(
    source: str = SOURCE,
    as_: str | None = AS,
    require: str | None = REQUIRE,
    name: str | None = NAME_OPTION,
    memory: str | None = option(help="Memory limit, such as 512m or 4g."),
    cpus: float | None = option(help="Limit in cores, such as 1.5."),
    network: str | None = NETWORK,
    allow: list[str] | None = ALLOW,
    deny: list[str] | None = DENY,
    passphrase: bool = OPENING_PASSPHRASE,
    plain_http: bool = PLAIN_HTTP,
    attach: bool | None = option(
        "--attach/--no-attach", help="Join its terminal afterwards (default if yours is one)."
    ),
    run_commands: bool = RUN_COMMANDS,
    json: bool = JSON,
) -> None:
    """Start a session from a captured failure, and join it where it failed.

    If it cannot run here as it was captured, exits with 3 and reports why, and the rungs that are possible.
    """
    from holdfast.runtime.api.thawing import format_failure

    as_json = wants_json(json)
    check_commands(as_, run=run_commands)
    secret = opening_passphrase(ask=passphrase)
    options = given(memory=memory, cpus=cpus, network=network, allow=allow, deny=deny)
    with controller() as holdfast:
        try:
            with bar("importing") as progress:
                done = holdfast.thaw(
                    source,
                    as_=rung(as_),
                    require=rung(require),
                    name=name,
                    passphrase=secret,
                    key_passphrase=os.environ.get(PASSPHRASE),
                    plain_http=plain_http,
                    progress=progress,
                    **options,
                )
        except LiveUnsupported as error:
            printing.fail(error, as_json=as_json)
            raise Exit(IMPOSSIBLE) from error
        again = run_again(done.snapshot, done.session, as_json=as_json) if run_commands else []
        if as_json:
            ran = {"ran": [one.as_dict() for one in again]} if run_commands else {}
            printing.emit({**thawed(done), **ran})
            return
        for line in [*_came_back(done), *(format_failure(done.failure) if done.failure is not None else [])]:
            printing.note(line)
        on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        if attach or (attach is None and on_terminal):
            _attach(done)
        else:
            for line in how(done):
                printing.note(line)
            printing.say(done.session.name)


def thawed(done: Thawed) -> dict[str, Any]:
    """Return a thawed failure for programs."""
    debugger = done.debugger
    return {
        **done.session.as_dict(),
        "rung": done.rung,
        "reasons": list(done.reasons),
        "lost": list(done.lost),
        "ladder": done.ladder.as_dict(),
        "snapshot": done.snapshot.as_dict() | {"origin": done.snapshot.row.details.origin},
        "failure": None if done.failure is None else done.failure.as_details(),
        "debugger": None if debugger is None else debugger.model_dump(mode="json"),
        "attach": how(done),
        "commands": len(done.commands),
    }


def how(done: Thawed) -> list[str]:
    """Return the commands to continue with."""
    name, debugger = done.session.name, done.debugger
    if debugger is not None and debugger.job:
        job = debugger.job
        found = [command("output", name, "-f", job), command("send", name, "--job", job, "-e", "TEXT")]
        return [each for each in found if each] if not job.startswith("-") else []
    text = debugger.command if debugger is not None else None
    # After a blank it is not taken for an option.
    first = command("exec", name, text if not text.startswith("-") else f" {text}") if text else ""
    return [*([first] if first else []), command("attach", name)]


def _came_back(done: Thawed) -> list[str]:
    """Return a few lines on how much was restored."""
    found = done.verification
    if done.rung == "live":
        deviations = len(found.deviations) if found is not None else 0
        seen = (
            f"compared with the freeze: {deviations or 'no'} deviations"
            if found is not None
            else "not compared"
        )
        return [f"{done.session.name} continues from {done.snapshot.name}; {seen}"]
    kept = f"{done.session.name} has the files of {done.snapshot.name}"
    if done.rung == "commands":
        from holdfast.runtime.restore.compat import command_history

        kept += f", and {len(done.commands)} recorded commands in {command_history.PATH}"
    lines = [kept]
    if done.snapshot.kind == "live":
        lines += [f"not live: {reason}" for reason in done.reasons]
        lines.append(f"without {', '.join(done.lost)}")
    return lines


def _attach(done: Thawed) -> None:
    debugger, session = done.debugger, done.session
    if debugger is not None and debugger.job:
        for line in how(done):
            printing.note(line)
        printing.say(session.name)
        return
    if debugger is not None and debugger.command:
        session.send(debugger.command + "\n")
    printing.note(f"C-] leaves; `holdfast attach {session.name}` comes back")
    reason = session.terminal.attach()
    printing.note(f"{reason} from session {session.name}" if reason == "detached" else f"closed: {reason}")


@examples("move work ssh://build-2")
def move(
    session: str = SESSION_REF,
    to: str = argument("TO", help="[USER@]HOST, or ssh://[USER@]HOST:PORT."),
    remote_command: str = option(
        "--remote-command", default="holdfast", metavar="COMMAND", help="How `holdfast` is called there."
    ),
    through: str | None = option(
        "--through", metavar="REFERENCE", help="Send the data through this registry."
    ),
    plain_http: bool = PLAIN_HTTP,
    key: str | None = KEY_NAME,
    secrets: str | None = SECRETS,
    json: bool = JSON,
) -> None:
    """Move a session to another machine, live. It continues there under its name, and is removed here."""
    with controller() as holdfast, bar("moving") as progress:
        moved = holdfast.session(session).move(
            to,
            remote_command=remote_command,
            through=through,
            plain_http=plain_http,
            key=key,
            passphrase=os.environ.get(PASSPHRASE),
            secrets=secrets,
            progress=progress,
        )
    for text in (*moved.warnings, *moved.deviations):
        printing.note(text)
    if wants_json(json):
        printing.emit(moved.as_dict())
    else:
        size, rest = printing.size(moved.bytes), printing.size(moved.rest)
        printing.say(f"{moved.name} runs at {moved.to}")
        printing.note(
            f"it was paused for {moved.paused:.1f} s; {size} were sent, {rest} of it during the pause"
        )


def receive() -> None:
    """Receive a session from a different machine: `holdfast move` starts this over ssh."""
    if sys.stdin.isatty() or sys.stdout.isatty():
        raise InvalidArgument(
            "cannot receive from a terminal: another machine starts this",
            hint="there: `holdfast move SESSION HOST`",
        )
    from holdfast.runtime.moving import receiver

    with controller() as holdfast:
        receiver.serve(context_of(holdfast, "receive"), sys.stdin.buffer, sys.stdout.buffer)
