"""Who does something, on this side: from an argument, the environment, or who sits at the terminal.

What an actor looks like is the guest's `actor.py`.
"""

from __future__ import annotations

import getpass
import os

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.guest.identity.actor import Actor

VARIABLE = "HOLDFAST_ACTOR"


def checked(actor: str | None) -> str:
    """The actor's text form; by default that of the environment, else an agent.

    Raises:
        InvalidArgument: it is none.
    """
    text = actor or os.environ.get(VARIABLE) or "agent"
    try:
        return str(Actor.parse(text))
    except ValueError as error:
        raise InvalidArgument(f"cannot act as '{plain(text, 80)}': {error}") from error


def of_command_line(interactive: bool) -> str | None:
    """The person at the terminal, or None: then it is up to the environment."""
    if not interactive or os.environ.get(VARIABLE):
        return None
    try:
        return f"person:{getpass.getuser()}"
    except (OSError, KeyError):
        return "person"
