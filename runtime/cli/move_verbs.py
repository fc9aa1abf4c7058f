"""Verbs: move, receive."""

from __future__ import annotations

import os
import sys

from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, SESSION_REF
from holdfast.runtime.cli.caller import context_of, controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option
from holdfast.runtime.cli.transfer_verbs import KEY_NAME, PASSPHRASE, PLAIN_HTTP, SECRETS, bar


@examples("move work ssh://build-2")
def move(
    session: str = SESSION_REF,
    to: str = argument("TO", help="[USER@]HOST, or ssh://[USER@]HOST:PORT."),
    remote_command: str = option(
        "--remote-command", default="holdfast", metavar="COMMAND", help="How `holdfast` is called there."
    ),
    through: str | None = option(
        "--through", metavar="REFERENCE", help="Send the bytes through this registry."
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
        printing.note(f"it was paused for {moved.paused:.1f} s; {size} were sent, {rest} of it meanwhile")


def receive() -> None:
    """Take in a session that another machine moves here: `holdfast move` starts this over ssh."""
    if sys.stdin.isatty() or sys.stdout.isatty():
        raise InvalidArgument(
            "cannot receive from a terminal: another machine starts this",
            hint="there: `holdfast move SESSION HOST`",
        )
    from holdfast.runtime.moving import receiver

    with controller() as holdfast:
        receiver.serve(context_of(holdfast, "receive"), sys.stdin.buffer, sys.stdout.buffer)
