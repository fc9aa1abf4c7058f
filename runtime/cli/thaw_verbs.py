"""Verb: thaw."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from holdfast.base.suggestion import command
from holdfast.errors import LiveUnsupported
from holdfast.runtime.cli import fitness_verbs, printing
from holdfast.runtime.cli.arguments import ALLOW, AS, JSON, NAME_OPTION, NETWORK, REQUIRE, RUN_COMMANDS
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import examples, option
from holdfast.runtime.cli.reporting import Exit
from holdfast.runtime.cli.transfer_verbs import (
    OPENING_PASSPHRASE,
    PASSPHRASE,
    PLAIN_HTTP,
    bar,
    given,
    opening_passphrase,
)

if TYPE_CHECKING:
    from holdfast.runtime.api.thawing import Thawed


@examples("thaw captured/tests-test_a.py-test_total.holdfast")
def thaw(
    source: str = fitness_verbs.SOURCE,
    as_: str | None = AS,
    require: str | None = REQUIRE,
    name: str | None = NAME_OPTION,
    memory: str | None = option(help="Memory limit, such as 512m or 4g."),
    cpus: float | None = option(help="Limit in cores, such as 1.5."),
    network: str | None = NETWORK,
    allow: list[str] | None = ALLOW,
    passphrase: bool = OPENING_PASSPHRASE,
    plain_http: bool = PLAIN_HTTP,
    attach: bool | None = option(
        "--attach/--no-attach", help="Join its terminal afterwards (default if yours is one)."
    ),
    run_commands: bool = RUN_COMMANDS,
    json: bool = JSON,
) -> None:
    """Start a session from a captured failure, and join it where it failed.

    If it cannot run here as it was captured, exits with 3 and says why, and what is possible.
    """
    from holdfast.runtime.api.thawing import format_failure

    as_json = wants_json(json)
    fitness_verbs.check_commands(as_, run=run_commands)
    secret = opening_passphrase(ask=passphrase)
    options = given(memory=memory, cpus=cpus, network=network, allow=allow)
    with controller() as holdfast:
        try:
            with bar("importing") as progress:
                done = holdfast.thaw(
                    source,
                    as_=fitness_verbs.rung(as_),
                    require=fitness_verbs.rung(require),
                    name=name,
                    passphrase=secret,
                    key_passphrase=os.environ.get(PASSPHRASE),
                    plain_http=plain_http,
                    progress=progress,
                    **options,
                )
        except LiveUnsupported as error:
            printing.fail(error, as_json=as_json)
            raise Exit(fitness_verbs.IMPOSSIBLE) from error
        again = (
            fitness_verbs.run_commands(done.snapshot, done.session, as_json=as_json) if run_commands else []
        )
        if as_json:
            ran = {"ran": [one.as_dict() for one in again]} if run_commands else {}
            printing.emit({**as_dict(done), **ran})
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


def as_dict(done: Thawed) -> dict[str, Any]:
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
        from holdfast.runtime.restore.compat import command_script

        kept += f", and {len(done.commands)} recorded commands in {command_script.PATH}"
    lines = [kept]
    if done.snapshot.kind == "live":
        lines += [f"not live: {reason}" for reason in done.reasons]
        lines.append(f"it lacks {', '.join(done.lost)}")
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
