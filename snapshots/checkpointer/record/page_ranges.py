"""Sets of pages, as ranges of addresses: sorted, disjoint, without empty ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

Range = tuple[int, int]
"""Addresses from the first to before the second."""


def joined(ranges: Iterable[Range]) -> list[Range]:
    """Return sorted ranges; adjacent ones are joined."""
    found: list[Range] = []
    for start, end in ranges:
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], end)
        elif start < end:
            found.append((start, end))
    return found


def common(one: Sequence[Range], other: Sequence[Range]) -> list[Range]:
    """Return the pages in both."""
    found: list[Range] = []
    at = to = 0
    while at < len(one) and to < len(other):
        start, end = max(one[at][0], other[to][0]), min(one[at][1], other[to][1])
        if start < end:
            found.append((start, end))
        if one[at][1] <= other[to][1]:
            at += 1
        else:
            to += 1
    return found


def without(one: Sequence[Range], other: Sequence[Range]) -> list[Range]:
    """Return the pages of the first that are not in the second."""
    return common(one, list(_gaps(other)))


def size(ranges: Iterable[Range]) -> int:
    """Return the bytes in them."""
    return sum(end - start for start, end in ranges)


def _gaps(ranges: Sequence[Range]) -> Iterator[Range]:
    at = 0
    for start, end in ranges:
        if at < start:
            yield at, start
        at = end
    yield at, 1 << 64
