"""What agents write into the arguments of the tool for tasks, and the commands that texts suggest to them.
Pure.

An agent over MCP has no command line: where a text for people names a command, the agent reads the tool's
action.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

from holdfast.base.quantities import parse_duration
from holdfast.errors import InvalidArgument

_FIELD = re.compile(r"^(?P<name>[a-z][a-z -]*): *(?P<value>.*)$")
_COMMANDS = (
    (
        re.compile(r"`holdfast task unblock \S+ && holdfast task resume \S+`"),
        "`task(unblock)`, `task(resume)`",
    ),
    (re.compile(r"`holdfast task (?P<verb>unblock|resume) [^`]*`"), r"`task(\g<verb>)`"),
    (re.compile(r"`holdfast task show [^`]*`"), "`task(export)`"),
    (
        re.compile(r"`holdfast task (?P<verb>done|claim|release|answer|drop) \S+ (?P<rest>[^`]*)`"),
        r"`task(\g<verb>)` \g<rest>",
    ),
    (re.compile(r"`holdfast wait [^`]*`"), "`shell` without a command"),
    (re.compile(r"`holdfast (?P<verb>journal|drift|events|pulse) [^`]*`"), r"`status`"),
)
"""Commands in texts for people, and what an agent does instead."""


def for_agents(text: str) -> str:
    """Return a text with the actions of tools in place of commands."""
    for pattern, instead in _COMMANDS:
        text = pattern.sub(instead, text)
    return text


def fields(text: str, known: tuple[str, ...], first: str = "") -> dict[str, Any]:
    """Return the values of lines such as `back end: sqlite`; the first line may be the field `first`'s value.

    Raises:
        InvalidArgument: a line has another field than those, or one occurs twice.
    """
    found: dict[str, Any] = {}
    for place, line in enumerate(filter(None, map(str.strip, text.splitlines()))):
        match = _FIELD.fullmatch(line)
        name = match["name"].replace(" ", "_").replace("-", "_") if match else ""
        if name not in known and place == 0 and first:
            found[first] = line
        elif match is None or name not in known or name in found:
            names = ", ".join(f"`{each.replace('_', ' ')}: …`" for each in known)
            raise InvalidArgument(f"cannot read line {place + 1}", hint=f"lines such as {names}")
        else:
            found[name] = match["value"]
    return found


def done(text: str) -> dict[str, Any]:
    """Return the arguments of `SessionTask.done`: a report's path, and lines `timeout: …`, `busy wait: …`.

    Raises:
        InvalidArgument: a line is not understood, or a time is not one.
    """
    found = fields(text, ("junit", "timeout", "busy_wait"), "junit")
    return found | {name: _seconds(found[name]) for name in ("timeout", "busy_wait") if name in found}


def block(text: str) -> dict[str, Any]:
    """Return the arguments of `SessionTask.block` but what it needs and its step.

    Raises:
        InvalidArgument: a line is not understood.
    """
    found = fields(text, ("why", "entry", "tried", "suspend"), "why")
    if found.get("suspend", "yes") not in ("yes", "no"):
        raise InvalidArgument("cannot read `suspend`: it is neither yes nor no")
    return found | ({"suspend": found["suspend"] == "yes"} if "suspend" in found else {})


def checkpoint(text: str) -> dict[str, Any]:
    """Return the arguments of `SessionTask.checkpoint`: a label, and lines `resume at: …`, `kind: …`.

    Raises:
        InvalidArgument: a line is not understood.
    """
    found = fields(text, ("label", "resume_at", "kind"), "label")
    if found.get("kind", "live") not in ("live", "filesystem"):
        raise InvalidArgument(
            "cannot take this kind of checkpoint", hint="`kind: live` or `kind: filesystem`"
        )
    return found


def artifact(text: str) -> dict[str, Any]:
    """Return the arguments of `SessionTask.artifact`: a path, and lines `name: …`, `entry: #12`.

    Without a name it has the last part of its path.

    Raises:
        InvalidArgument: a line is not understood, or there is no path.
    """
    found = fields(text, ("path", "name", "entry"), "path")
    if "path" not in found:
        raise InvalidArgument("cannot keep an artifact without its path")
    return {"name": PurePosixPath(found["path"]).name or found["path"], **found}


def policy(text: str) -> dict[str, Any]:
    """Return the arguments of `SessionTask.set` that lines of a policy say; `profile: NAME=COMMAND` is one.

    Raises:
        InvalidArgument: a line is not understood.
    """
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    profiles = [line.partition(":")[2].strip() for line in lines if line.startswith("profile:")]
    others = "\n".join(line for line in lines if not line.startswith("profile:"))
    found = fields(others, ("verify", "back_end", "artifacts", "checkpoint", "retry_limit"))
    if "retry_limit" in found:
        if not re.fullmatch(r"[0-9]{1,4}", found["retry_limit"], re.ASCII):
            raise InvalidArgument("cannot use this retry limit: it is not a number")
        found["retry_limit"] = int(found["retry_limit"])
    if profiles:
        if not all("=" in each for each in profiles):
            raise InvalidArgument(
                "cannot use this profile: it lacks a command", hint="`profile: NAME=COMMAND`"
            )
        found["profiles"] = {
            name.strip(): command for name, _, command in (each.partition("=") for each in profiles)
        }
    return found


def _seconds(text: str) -> float:
    found = parse_duration(text)
    if found is None:
        raise InvalidArgument("cannot use this time", hint="seconds, or such as `90s` or `5m`")
    return found
