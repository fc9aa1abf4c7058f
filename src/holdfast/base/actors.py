"""The actor of a call on the host: from an argument, the environment, or the user at the terminal.

The form of an actor is defined by the guest's `actor.py`.
"""

from __future__ import annotations

import os

from holdfast.errors import InvalidArgument
from holdfast.runtime.guest.defaults import ACTOR_KINDS

VARIABLE = "HOLDFAST_ACTOR"
RUN = "HOLDFAST_RUN"
"""The run of an agent, or conversation: it distinguishes two of one name, as `agent:coder/RUN`."""


def checked(actor: str | None) -> str:
    """Return the actor's text form; the default is the environment's, else an agent.

    An agent without a run gets that of the environment, if there is one.

    Raises:
        InvalidArgument: it is not a valid actor.
    """
    text = actor or os.environ.get(VARIABLE) or "agent"
    if run := os.environ.get(RUN):
        text = in_run(text, run)
    if text in ACTOR_KINDS:
        return text
    from holdfast.base.text import plain
    from holdfast.runtime.guest.identity.actor import Actor

    try:
        return str(Actor.parse(text))
    except ValueError as error:
        raise InvalidArgument(f"cannot act as '{plain(text, 80)}': {error}") from error


def in_run(actor: str, run: str) -> str:
    """Return an agent's actor with its run; other actors, and agents that name a run already, are
    unchanged."""
    if actor.partition(":")[0] != "agent" or "/" in actor:
        return actor
    return f"{actor}{'' if ':' in actor else ':'}/{run}"


def of_command_line(interactive: bool) -> str | None:
    """Return the person at the terminal; None if the environment names the actor, or there is no terminal."""
    if not interactive or os.environ.get(VARIABLE):
        return None
    import getpass

    try:
        return f"person:{getpass.getuser()}"
    except (OSError, KeyError):
        return "person"
