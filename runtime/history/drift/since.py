"""Parsing of "since": a snapshot's name, a journal entry, a command, a time.  Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from holdfast.base import ids
from holdfast.base.quantities import parse_duration
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument

_CLOCK = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?")
HINT = "give a snapshot, the number of a journal entry (#12), the id of a command, `10m`, or a time"


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """A point in the life of a session. `at` is in Unix seconds; `seq` the last entry before it.

    `until` names the later point if that is not the present.
    """

    label: str
    at: float
    seq: int | None = None
    snapshot_id: str | None = None
    until: str | None = None


def entry_number(text: str) -> int | None:
    """Return the number of a journal entry, if that is what the text is; an id that has no letters is not."""
    if re.fullmatch(ids.ID, text):
        return None
    digits = text.removeprefix("#")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 18 else None


def time_of(text: str, now: datetime) -> float | None:
    """Parse a time into Unix seconds: an age (10m), a time of today, or a date and time; None for other text.

    An id that also reads as an age, such as 97925245716d, is not a time.

    Args:
        text: the text.
        now: the present, with the time zone for times without one.
    """
    if re.fullmatch(ids.ID, text):
        return None
    if (ago := parse_duration(text.strip().removesuffix(" ago"), unit_required=True)) is not None:
        return now.timestamp() - ago
    if _CLOCK.fullmatch(text):
        text = f"{now.date().isoformat()}T{text.zfill(5 if text.count(':') == 1 else 8)}"
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=now.tzinfo)).timestamp()


def unknown(text: str) -> InvalidArgument:
    """Return the error for text that names no point in time."""
    return InvalidArgument(
        f"cannot compare: '{plain(text, 80)}' is not a snapshot, journal entry, command or time", hint=HINT
    )
