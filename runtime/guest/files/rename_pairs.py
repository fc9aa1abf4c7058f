"""Joins the two halves of a rename, which the kernel reports one after the other. Pure.

Between them may be events of other threads, and the second half may not have been written yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from holdfast.runtime.guest.files.inotify_events import MOVED_FROM, MOVED_TO, RawEvent

REACH = 64
"""Events after the first half among which the second one is looked for."""


class Rename(NamedTuple):
    """Both halves of a rename."""

    source: RawEvent
    target: RawEvent


def joined(events: Sequence[RawEvent], *, final: bool) -> tuple[list[RawEvent | Rename], list[RawEvent]]:
    """Return the events with renames joined, and those that must wait for a second half.

    Args:
        events: in the order in which they were read.
        final: whether to wait no longer; first halves then stay as they are.
    """
    found: list[RawEvent | Rename] = []
    taken: set[int] = set()
    for at, event in enumerate(events):
        if at in taken:
            continue
        if not event.mask & MOVED_FROM:
            found.append(event)
            continue
        other = next(_second_half(events, at), None)
        if other is not None:
            taken.add(other)
            found.append(Rename(event, events[other]))
        elif final or len(events) - at > REACH:
            found.append(event)
        else:
            return found, [each for number, each in enumerate(events) if number >= at and number not in taken]
    return found, []


def _second_half(events: Sequence[RawEvent], at: int) -> Iterator[int]:
    cookie = events[at].cookie
    for number in range(at + 1, min(at + 1 + REACH, len(events))):
        if events[number].cookie == cookie and events[number].mask & MOVED_TO:
            yield number
