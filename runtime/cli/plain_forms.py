"""Frequent verbs in their plainest form, which needs no parser.

Typer takes longer to load than a command takes in a session. A form does what Typer would make of it: words
that begin with a dash are left to Typer, except `ls --json`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

COMPLETION = "_HOLDFAST_COMPLETE"
"""The variable by which a shell asks for completions."""


def matched(given: Sequence[str]) -> Callable[[], int] | None:
    """Return what runs a command line of such a form, and returns the exit code; None for all others."""
    if COMPLETION in os.environ:
        return None
    match list(given):
        case ["ls"] | ["ls", "--json"]:
            return lambda: _ls(as_json=len(given) == 2)
        case ["exec", session, *words] if words and not any(each.startswith("-") for each in given):
            return lambda: _exec(session, words)
    return None


def _ls(*, as_json: bool) -> int:
    from holdfast.runtime.cli import session_table

    session_table.show(as_json=as_json)
    return 0


def _exec(session: str, words: Sequence[str]) -> int:
    from holdfast.runtime.cli import shell_outcome
    from holdfast.runtime.cli.caller import command_text, controller
    from holdfast.runtime.guest.layout import MAIN

    found = controller().session(session)
    how = dict.fromkeys(("timeout", "lease_wait", "patience", "busy_wait", "key", "reason"))
    text = command_text(words, separated=False)
    return shell_outcome.run(found, text, {**how, "wait": False, "shell": MAIN}, as_json=False, raw=False)
