"""How files get from an earlier point to the present, through the containers of a session's lineage.  Pure.

A container begins with the image of the snapshot it was made from; the engine reports how it differs from
that. So what changed since a snapshot is a sum over one or more containers: from that point to the end of the
first, all of those in between, and from the beginning of the present one to now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.errors import InvalidArgument


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
                f"cannot compare: snapshot {wanted.name} is not in the past of this session",
                hint="`holdfast snapshots` shows what was taken of what",
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
            f"cannot compare: snapshot {point.name} did not record what its files were",
            hint="it was taken by an older version; compare with a later one",
        )
    return point


def points_by_id(found: Sequence[Point]) -> dict[str, Point]:
    """Return snapshots by their id."""
    return {one.id: one for one in found}
