"""Verb: attach."""

from __future__ import annotations

import sys

from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, RAW, SESSION_REF, SHELL
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import examples, option


@examples("attach work              # C-] leaves it", "attach work --view       # watch only")
def attach(
    session: str = SESSION_REF,
    detach_key: str = option(
        "--detach-key", default="C-]", metavar="NAME", help="The key that detaches, such as C-] or C-q."
    ),
    view: bool = option("--view", help="Watch only; nothing you type is passed on."),
    take: bool = option("--take", help="Take the shell even if someone holds it."),
    shell: str = SHELL,
    raw: bool = RAW,
    json: bool = JSON,
) -> None:
    """Join the session's terminal. C-] detaches; the session keeps running.

    If the shell is free, you hold it until you leave; commands of others wait or are refused. Programs
    work as usual, but cannot reach your terminal's clipboard or title.
    """
    found = controller().session(session)
    if sys.stdin.isatty():
        printing.note(f"{detach_key} leaves the session")
    reason = found.terminal_of(shell).attach(detach_key=detach_key, read_only=view, take=take, unfiltered=raw)
    if wants_json(json):
        printing.emit({"id": found.id, "name": found.name, "reason": reason})
    else:
        printing.note(
            f"{reason} from session {found.name}"
            if reason == "detached"
            else "the shell was closed" + (f": {reason}" if reason != "closed" else "")
        )
