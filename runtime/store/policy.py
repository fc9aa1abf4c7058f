"""The policy of a session: when it is captured automatically, and how long these snapshots are kept.  Pure.

It is stored in the session's details under `policy`, as a table of differences from the defaults.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any

from holdfast.base.quantities import parse_duration, parse_size
from holdfast.base.text import plain
from holdfast.base.value_classes import as_table
from holdfast.errors import InvalidArgument
from holdfast.runtime.store.row_details import SessionDetails

KEEP = 20
"""Automatic snapshots of a session that are kept by default."""
LEAST_LOSS = 5.0
"""The fewest seconds of work that a loss can cost."""
MOST_PATTERNS = 100
MOST_NUMBER = 1_000_000
_NUMBERS = ("every", "keep", "hourly", "daily")
_FLAGS = ("before_risky", "on_failure")


def seconds(text: str | float, what: str = "time") -> float:
    """Convert a duration such as `10m`, `2h`, `7d` to seconds.

    Raises:
        InvalidArgument: it is not a duration.
    """
    found = parse_duration(text, unit_required=True) if isinstance(text, str) else text
    if isinstance(found, timedelta):
        found = found.total_seconds()
    if isinstance(found, bool) or not isinstance(found, int | float) or not 1 <= found < 1e10:
        raise InvalidArgument(
            f"cannot set {what}: '{plain(str(text), 40)}' is not a duration", hint="such as 10m, 2h, 7d"
        )
    return float(found)


def size(text: str | int, what: str = "quota") -> int:
    """Convert a size such as `500m`, `2g` to bytes.

    Raises:
        InvalidArgument: it is not a size.
    """
    found = parse_size(text) if isinstance(text, str) else text
    if isinstance(found, bool) or not isinstance(found, int) or not 0 < found < 1 << 60:
        raise InvalidArgument(
            f"cannot set {what}: '{plain(str(text), 40)}' is not a size", hint="such as 500m, 2g"
        )
    return found


def _number(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_NUMBER:
        raise InvalidArgument(f"cannot set policy: {name} must be a number from 0 to {MOST_NUMBER}")
    return value


def _every(name: str, value: Any) -> int | None:
    return _number(name, value) or None


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument(f"cannot set policy: {name} is yes or no")
    return value


def _patterns(name: str, value: Any) -> tuple[str, ...]:
    found = [value] if isinstance(value, str) else list(value)
    if len(found) > MOST_PATTERNS:
        raise InvalidArgument(f"cannot set policy: {len(found)} patterns, the limit is {MOST_PATTERNS}")
    for text in found:
        try:
            re.compile(text)
        except (re.error, TypeError) as error:
            raise InvalidArgument(
                f"cannot set policy: '{plain(str(text), 60)}' is not a regular expression ({error})"
            ) from error
    return tuple(found)


def _span(name: str, value: Any) -> float | None:
    return seconds(value, name) if value else None


def _quota(name: str, value: Any) -> int | None:
    return size(value, name) if value else None


def _durable(name: str, value: Any) -> float | None:
    found = _span(name, value)
    if found is not None and found < LEAST_LOSS:
        raise InvalidArgument(
            f"cannot set durable: {span(found)} is less than a capture takes",
            hint=f"from {LEAST_LOSS:g}s",
        )
    return found


def _kind(name: str, value: Any) -> str:
    if value not in ("live", "filesystem"):
        raise InvalidArgument(f"cannot set policy: {name} must be live or filesystem")
    return str(value)


def _checked(default: Any, check: Callable[[str, Any], Any]) -> Any:
    """Describe a field of the policy: its default, and the function that reads a caller's value."""
    return field(default=default, metadata={"check": check})


@dataclass(frozen=True, slots=True)
class Policy:
    """When a session is captured automatically, and which of these snapshots are kept.

    Attributes:
        every: after this many commands and cells.
        before_risky: before commands that destroy or install; `risky` adds regular expressions of such
            commands.
        on_failure: after a command that does not exit with 0, or a cell that raises.
        idle: after this many seconds without activity.
        kind: `live` or `filesystem`.
        keep: this many of the newest; in addition those younger than `keep_for` seconds, and the last one
            of each of the latest `hourly` hours and `daily` days that have any.
        quota: bytes that all snapshots of the session may take.
        durable: in a cluster, the seconds of work that the loss of its machine may cost: a live session is
            captured in time and sent to the cluster's registry; None for what its node says.
    """

    every: int | None = _checked(None, _every)
    before_risky: bool = _checked(False, _flag)
    risky: tuple[str, ...] = _checked((), _patterns)
    on_failure: bool = _checked(False, _flag)
    idle: float | None = _checked(None, _span)
    kind: str = _checked("live", _kind)
    keep: int = _checked(KEEP, _number)
    keep_for: float | None = _checked(None, _span)
    hourly: int = _checked(0, _number)
    daily: int = _checked(0, _number)
    quota: int | None = _checked(None, _quota)
    durable: float | None = _checked(None, _durable)

    @property
    def captures(self) -> bool:
        """True if any captures are automatic."""
        return bool(self.every or self.before_risky or self.on_failure or self.idle)

    def as_dict(self) -> dict[str, Any]:
        """Return the differences from the defaults."""
        defaults = as_table(Policy())
        return {name: value for name, value in as_table(self).items() if value != defaults[name]}

    @classmethod
    def of(cls, details: SessionDetails) -> Policy:
        """Return the policy in the details of a session; the default if it cannot be read."""
        value = details.policy
        try:
            return cls() if value is None else parse(value)
        except InvalidArgument:
            return cls()


def parse(chosen: Mapping[str, Any]) -> Policy:
    """Validate a policy; None is the default. Durations and sizes may be texts (`10m`, `2g`).

    Raises:
        InvalidArgument: names what is wrong.
    """
    known = {each.name: each.metadata["check"] for each in fields(Policy)}
    values: dict[str, Any] = {}
    for name, value in chosen.items():
        if name not in known:
            raise InvalidArgument(
                f"cannot set policy: it does not have '{plain(name, 40)}'",
                hint=f"it has {', '.join(sorted(known))}",
            )
        if value is not None:
            values[name] = known[name](name, value)
    return Policy(**values)


def parse_text(text: str) -> dict[str, Any]:
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
        elif equals and key in ("idle", "keep_for", "quota", "kind", "durable"):
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
        more = f" and commands that match {', '.join(found.risky)}" if found.risky else ""
        when.append(f"before risky commands{more}")
    if found.on_failure:
        when.append("after a command that fails")
    if found.idle:
        when.append(f"after {span(found.idle)} without activity")
    kept = [f"the last {found.keep}"]
    kept += [f"those of the last {span(found.keep_for)}"] if found.keep_for else []
    kept += [f"one for each of {found.hourly} hours"] if found.hourly else []
    kept += [f"one for each of {found.daily} days"] if found.daily else []
    lines = [f"captured ({found.kind}): {'; '.join(when) if when else 'only on request'}"]
    lines.append(f"kept of automatic ones: {'; '.join(kept)}")
    if found.durable:
        lines.append(f"durable: the loss of its machine costs at most {span(found.durable)} of work")
    if found.quota:
        lines.append(f"quota: {found.quota} bytes")
    return lines


def span(seconds: float) -> str:
    """Format a duration in its largest whole unit."""
    for length, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"
