"""Frequent verbs, read without Typer.

Typer takes longer to load than a command takes in a session. What a form does is what Typer would make of the
same words; those that `plain_parser` does not take are left to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from holdfast.runtime.cli import plain_parser
from holdfast.runtime.cli.plain_parameters import ARGUMENTS, OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMPLETION = "_HOLDFAST_COMPLETE"
"""The variable by which a shell asks for completions."""


def matched(given: Sequence[str]) -> Callable[[], int] | None:
    """Return what runs a command line of such a form, and returns the exit code; None for all others."""
    if not given or given[0] not in ARGUMENTS or COMPLETION in os.environ:
        return None
    verb, words = given[0], given[1:]
    values = plain_parser.parsed(ARGUMENTS[verb], OPTIONS[verb], words)
    if values is None:
        return None
    if verb == "exec":
        values["separated"] = "--" in words
    return lambda: run(verb, **values)


def run(verb: str, **values: Any) -> int:
    """Run a verb with its parameters, and return the exit code."""
    if verb == "ls":
        from holdfast.runtime.cli import session_table

        return session_table.show(**values)
    if verb == "cell":
        from holdfast.runtime.cli import kernel_actions

        return kernel_actions.cell(**values)
    if verb == "snapshot":
        from holdfast.runtime.cli import capture_actions

        return capture_actions.snapshot(**values)
    from holdfast.runtime.cli import shell_actions

    actions: dict[str, Callable[..., int]] = {
        "exec": shell_actions.execute,
        "wait": shell_actions.wait,
        "send": shell_actions.send,
        "screen": shell_actions.screen,
    }
    return actions[verb](**values)
