"""The caller, its options before the verb, and the controller of this process.

Loads little: every verb needs it.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.runtime.api.controller import Holdfast
    from holdfast.runtime.cli.step_line import StepLine
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.operations.step import Step

COMPLETION = "_HOLDFAST_COMPLETE"
"""The variable by which a shell asks for completions: `complete_bash`, `source_zsh` and the like."""


class EarlyOptions:
    """Options given before the verb: `holdfast --json ls` means `holdfast ls --json`."""

    json = False
    actor: str | None = None
    reason: str | None = None
    quiet = False


def wants_json(option: bool) -> bool:
    """Return whether the caller is a program, which wants JSON."""
    return option or EarlyOptions.json


def controller() -> Holdfast:
    """Return the controller of the default home; it shows progress to a person."""
    from holdfast.runtime.api.controller import Holdfast
    from holdfast.runtime.cli.printing import note

    if url := os.environ.get("HOLDFAST_URL"):
        return _over(url)
    return Holdfast(progress=note, on_step=doing, actor=acting(), reason=EarlyOptions.reason)


def doing(step: Step | None) -> None:
    """Show a step on a person's terminal, unless they want quiet; None: no operation is under way."""
    if not EarlyOptions.quiet and (line := _line()) is not None:
        line(step)


def _watcher() -> Callable[[Step | None], None] | None:
    """Return the function that shows the steps of a server; None if a person would not see them."""
    return None if EarlyOptions.quiet or _line() is None else doing


@functools.cache
def _line() -> StepLine | None:
    from holdfast.runtime.cli import step_line  # what ends soon has no steps

    return step_line.of_this_process()


def is_over_a_url() -> bool:
    """Return whether the controller of this process belongs to a server."""
    return bool(os.environ.get("HOLDFAST_URL"))


def context_of(holdfast: Holdfast, what: str) -> Context:
    """Return the context of a home, for verbs that need all of it; `what` names such a verb.

    Raises:
        OnlyInProcess: the controller belongs to a server.
    """
    if is_over_a_url():
        from holdfast.runtime.client.client_errors import not_over_a_url

        raise not_over_a_url(what)
    return holdfast.context


def _over(url: str) -> Holdfast:
    """Return the controller of a server."""
    from holdfast.errors import InvalidArgument
    from holdfast.runtime.api.controller import Holdfast
    from holdfast.runtime.client import client_address

    if not client_address.is_url(url):
        raise InvalidArgument(
            "cannot use HOLDFAST_URL: it is not the URL of a server", hint="for example http://127.0.0.1:8420"
        )
    if EarlyOptions.reason is not None:
        raise InvalidArgument("cannot give a reason over a URL before the verb", hint="leave out --reason")
    return Holdfast(url, actor=acting_at(url), on_step=_watcher())


def acting_at(url: str) -> str | None:
    """Return the actor of requests to a server: a person who is logged in there is not the local user."""
    from holdfast.runtime.client import client_address

    return EarlyOptions.actor if client_address.is_logged_in(url) else acting()


def acting() -> str | None:
    """Return the actor that the command line names; None leaves it to the environment."""
    from holdfast.base import actors

    return EarlyOptions.actor or actors.of_command_line(sys.stdin.isatty() and sys.stdout.isatty())


def command_text(words: Sequence[str], *, separated: bool) -> str:
    """Return the shell's input: one text unchanged, `-` from standard input, or words quoted for it."""
    if not separated and list(words) == ["-"]:
        return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    if not separated and len(words) == 1:
        return words[0]
    from holdfast.base import shell_words

    return shell_words.join(words)
