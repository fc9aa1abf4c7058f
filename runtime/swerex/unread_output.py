"""Where a caller has stopped reading a program that it drives line by line.

Its next line continues there, so that output that came in between is neither lost nor searched twice. That is
kept in memory only: after a restart of the server, reading continues where the line is typed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from holdfast.base.value_classes import dataclass

MOST = 500
"""Shells whose places are kept; the oldest are forgotten first."""
LONGEST = 32 << 10
"""Characters of text that are kept for one."""


@dataclass(frozen=True, slots=True)
class ReadingPlace:
    """A place in the output of a command: what was received and not passed on, and the offset after it."""

    command_id: str
    offset: int
    text: str = ""


class UnreadOutput:
    """The places of all shells; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: OrderedDict[tuple[str, str], ReadingPlace] = OrderedDict()

    def keep(self, session: str, shell: str, place: ReadingPlace) -> None:
        """Note where a caller has stopped."""
        kept = ReadingPlace(place.command_id, place.offset, place.text[-LONGEST:])
        with self._lock:
            self._places.pop((session, shell), None)
            self._places[session, shell] = kept
            while len(self._places) > MOST:
                self._places.popitem(last=False)

    def take(self, session: str, shell: str, command_id: str) -> ReadingPlace | None:
        """Return where the caller has stopped reading a command, and forget it."""
        with self._lock:
            found = self._places.pop((session, shell), None)
        return found if found is not None and found.command_id == command_id else None
