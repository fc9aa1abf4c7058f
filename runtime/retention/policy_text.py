"""Policies as people write and read them.  Pure."""

from __future__ import annotations

from typing import Any

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.store.policy import Policy

_NUMBERS = ("every", "keep", "hourly", "daily")
_FLAGS = ("before_risky", "on_failure")


def policy(text: str) -> dict[str, Any]:
    """Parse a policy in one word: `every=20,before-risky,idle=10m,keep=20`; `off` for none.

    Raises:
        InvalidArgument: a part of it is not valid.
    """
    found: dict[str, Any] = {}
    for part in (piece.strip() for piece in text.split(",")):
        if part in ("", "off", "none"):
            continue
        name, equals, value = part.partition("=")
        key = name.strip().replace("-", "_")
        if key in _FLAGS and not equals:
            found[key] = True
        elif key in _NUMBERS and value.strip().isdecimal():
            found[key] = int(value)
        elif equals and key in ("idle", "keep_for", "quota", "kind"):
            found[key] = value.strip()
        elif equals and key == "risky":
            found.setdefault(key, []).append(value)
        else:
            raise InvalidArgument(
                f"cannot set policy: '{plain(part, 60)}' is not understood",
                hint="such as every=20,before-risky,on-failure,idle=10m,keep=20,keep-for=7d,quota=5g",
            )
    return found


def format_policy(found: Policy) -> list[str]:
    """Format a policy as lines for people."""
    when = []
    if found.every:
        when.append(f"after every {found.every} commands and cells")
    if found.before_risky:
        more = f" and what fits {', '.join(found.risky)}" if found.risky else ""
        when.append(f"before risky commands{more}")
    if found.on_failure:
        when.append("after a command that fails")
    if found.idle:
        when.append(f"after {span(found.idle)} without anything done")
    kept = [f"the last {found.keep}"]
    kept += [f"those of the last {span(found.keep_for)}"] if found.keep_for else []
    kept += [f"one for each of {found.hourly} hours"] if found.hourly else []
    kept += [f"one for each of {found.daily} days"] if found.daily else []
    lines = [f"captured ({found.kind}): {'; '.join(when) if when else 'only when asked for'}"]
    lines.append(f"kept of automatic ones: {'; '.join(kept)}")
    if found.quota:
        lines.append(f"quota: {found.quota} bytes")
    return lines


def span(seconds: float) -> str:
    """Format a duration in its largest whole unit."""
    for length, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"
