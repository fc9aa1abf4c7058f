"""What the tool for tasks says of the actions that led to a snapshot, and how it repeats them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.mcp.agent_sessions import AgentSession, AgentSessions
from holdfast.runtime.mcp.agent_tools import said
from holdfast.runtime.mcp.short_text import shorten
from holdfast.runtime.task.stated_actions import StatedAction

_WANTED = re.compile(
    r"(?P<snapshot>\S+)(?: from (?P<since>\S+))?(?: without (?P<skip>#[0-9]+(?:[, ]+#[0-9]+)*))?"
)


def listed(found: Sequence[StatedAction]) -> str:
    """Return actions, one a line: entry, actor, text, reason, outcome."""
    rows = (
        (each.entry, each.actor, plain(each.text.strip(), 200), each.why and f"({each.why})", each.outcome)
        for each in found
    )
    return "\n".join("  ".join(part for part in row if part) for row in rows)


def redo(agents: AgentSessions, found: AgentSession, wanted: str) -> str:
    """Repeat what led to a snapshot in a new session, which the agent gets, and say how far it came.

    `wanted` is `SNAPSHOT`, `SNAPSHOT from EARLIER`, each also with `without #12, #13`.

    Raises:
        InvalidArgument: that is not what was given.
    """
    told = _WANTED.fullmatch(wanted.strip())
    if told is None:
        raise InvalidArgument(
            f"cannot redo {plain(wanted, 80)!r}: that is not a snapshot",
            hint="such as `good from begin without #12, #13`",
        )
    skip = re.findall(r"#[0-9]+", told["skip"] or "")
    made = agents.holdfast.snapshot(told["snapshot"]).redo(since=told["since"], skip=skip)
    name = agents.keep(agents.holdfast.session(made.session)).session.name
    lines = [
        f"{each.action.entry} {plain(each.action.text, 100)}: {each.fate} {each.why}" for each in made.actions
    ]
    ended = "complete" if made.complete else f"it ended early, {made.left} actions were not reached"
    return said(found, shorten("\n".join(lines)).text, f"made {name}", ended, "name it as `session`")
