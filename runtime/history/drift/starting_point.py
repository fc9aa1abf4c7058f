"""The earlier point that a session is compared with: its text parsed (a snapshot, a journal entry, a command,
a time), and how files get from it to the present.  Pure.

A container begins with the image of the snapshot it was made from; the engine reports how it differs from
that. So the changes since a snapshot are a sum over one or more containers: from that point to the end of
the first, all of the containers in between, and from the beginning of the present one to now.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
    """Return the number of a journal entry, if the text is one; an all-digit id is not."""
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


def unknown_point(text: str) -> InvalidArgument:
    """Return the error for text that names no point in time."""
    return InvalidArgument(
        f"cannot compare: '{plain(text, 80)}' is not a snapshot, journal entry, command or time", hint=HINT
    )


@dataclass(frozen=True, slots=True)
class Point:
    """A snapshot: its session, its time, and the snapshot its container was made from.

    `known` is true if its files at that point are known.
    """

    id: str
    name: str
    session: str
    at: float
    base: str | None = None
    known: bool = True


@dataclass(frozen=True, slots=True)
class TrailSpan:
    """From one point to another in one container; None is its beginning, or the present."""

    begin: str | None
    end: str | None


def to_snapshot(
    wanted: Point, session: str, base: str | None, points: Mapping[str, Point]
) -> list[TrailSpan]:
    """Return the spans from a snapshot to now, the latest first.

    Args:
        wanted: the snapshot.
        session: id of the session in question.
        base: the snapshot its container was made from.
        points: all existing snapshots.

    Raises:
        InvalidArgument: it is not in the past of the session.
    """
    spans: list[TrailSpan] = []
    end: Point | None = None
    while True:
        if wanted.id == base:
            return [*spans, TrailSpan(None, end.id if end else None)]
        if wanted.session == session and wanted.base == base and (end is None or wanted.at <= end.at):
            return [*spans, TrailSpan(_checked(wanted).id, end.id if end else None)]
        if base is None:
            raise InvalidArgument(
                f"cannot compare: snapshot {wanted.name} is not an ancestor of this session",
                hint="`holdfast snapshots` shows the snapshots of each session",
            )
        spans.append(TrailSpan(None, end.id if end else None))
        end = _point(base, points)
        session, base = end.session, end.base


def to_time(moment: float, session: str, base: str | None, points: Mapping[str, Point]) -> list[TrailSpan]:
    """Return the spans to now from the latest known point that is not after a time (Unix seconds)."""
    spans: list[TrailSpan] = []
    end: Point | None = None
    while True:
        mine = [
            one
            for one in points.values()
            if one.known and one.session == session and one.base == base and one.at <= moment
        ]
        start = max(mine, key=lambda one: one.at, default=None)
        if start is not None:
            return [*spans, TrailSpan(start.id, end.id if end else None)]
        if base is None or base not in points or points[base].at <= moment:
            return [*spans, TrailSpan(None, end.id if end else None)]
        spans.append(TrailSpan(None, end.id if end else None))
        end = _point(base, points)
        session, base = end.session, end.base


def _point(identity: str, points: Mapping[str, Point]) -> Point:
    if identity not in points:
        raise InvalidArgument(
            f"cannot compare: snapshot {identity}, which lies in between, was removed",
            hint="compare with a later point in time",
        )
    return _checked(points[identity])


def _checked(point: Point) -> Point:
    if not point.known:
        raise InvalidArgument(
            f"cannot compare: snapshot {point.name} did not record its files",
            hint="an older version took it; compare with a later snapshot",
        )
    return point


def points_by_id(found: Sequence[Point]) -> dict[str, Point]:
    """Return snapshots by their id."""
    return {one.id: one for one in found}
