"""Searches a shell's output, as it comes, for a caller's patterns, and remembers where the caller stopped
reading.

A pattern is a regular expression of a kind whose search takes a bounded time, whatever the session writes:
with few repetitions, and none within another one. The next line of a caller that drives a program continues
where it stopped, so that output that came in between is neither lost nor searched twice; after a restart of
the server, reading continues where the line is typed.
"""

from __future__ import annotations

import io
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence

from holdfast.base.text import plain
from holdfast.base.value_classes import dataclass
from holdfast.errors import InvalidArgument
from holdfast.runtime.terminal.vt_parser import Control, Parser, Text

KEEP = 1 << 20
"""Characters of output that are kept, from its end."""
LONGEST = 250
"""Characters of a pattern, and of its match."""
MOST_CHOICES = 4
"""Optional parts and alternatives of one pattern."""
_PARTS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?:|\(\?|\{\d*,?\d*\}|[()*+?|]|.", re.DOTALL)


def pattern(text: str) -> re.Pattern[str]:
    """Return a caller's pattern, ready for searching.

    Raises:
        InvalidArgument: it is not valid, or searching for it could take without end.
    """
    repetitions = choices = 0
    before = ""
    for part in _PARTS.findall(text):
        if _is_repeated(part):
            if before == ")":
                raise _refused(text, "it repeats a group")
            if not _is_repeated(before):  # else it says how the repetition before it is searched for
                choices += part == "?"
                repetitions += part != "?"
        elif part == "(?":
            raise _refused(text, "it has a group of a special kind")
        choices += part == "|"
        before = part
    if repetitions > 1 or choices > MOST_CHOICES:
        raise _refused(text, f"it has more than one repetition, or more than {MOST_CHOICES} choices")
    try:
        return re.compile(text, re.DOTALL)
    except (re.error, OverflowError, RecursionError) as error:
        raise _refused(text, f"it is not a regular expression ({plain(str(error), 100)})") from None


def _is_repeated(part: str) -> bool:
    return part in ("*", "+", "?") or (part.startswith("{") and len(part) > 1)


def _refused(text: str, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"cannot expect {text[:200]!r}: {why}", hint="expect the last characters of the prompt alone"
    )


def shown(text: str) -> str:
    """Return output as its reader sees it: without the functions that move a cursor or set colors."""
    if "\x1b" not in text and not re.search("[\x80-\x9f]", text):
        return text
    kept = (part for part in Parser().feed_text(text))
    return "".join(
        part.text if isinstance(part, Text) else part.char
        for part in kept
        if isinstance(part, Text | Control)
    )


class ExpectedOutput:
    """The output of one call so far, and where in it the first of the expected patterns is."""

    def __init__(self, expected: Sequence[str]) -> None:
        self._expected = [(text, pattern(text)) for text in expected]
        self._before, self._after = _LastText(), _LastText()
        self._tail = ""  # what a match may begin in
        self.found = ""
        """The pattern that was found, as the caller gave it; empty as long as there is none."""

    def feed(self, text: str) -> bool:
        """Process more output; return whether a pattern has been found so far."""
        for start in range(0, len(text), LONGEST):
            if self.found:
                self._after.add(text[start:])
                break
            piece = text[start : start + LONGEST]
            self._tail += piece
            self._search(last=start + LONGEST >= len(text))
        return bool(self.found)

    @property
    def before(self) -> str:
        """The output before the match, or all of it."""
        return self._before.text + self._tail

    @property
    def after(self) -> str:
        """The output after the match, as far as it has come."""
        return self._after.text

    @property
    def dropped(self) -> int:
        """Characters at the beginning that were not kept."""
        return self._before.dropped

    def _search(self, *, last: bool) -> None:
        """Search the tail. `last`: no more output is known, so that `$` can match at its end."""
        best: tuple[int, int] | None = None
        for text, compiled in self._expected:
            match = compiled.search(self._tail)
            if match is None or (match.end() == len(self._tail) and not last):
                continue
            if best is None or match.start() < best[0]:
                best, self.found = match.span(), text
        if best is not None:
            self._after.add(self._tail[best[1] :])
            self._tail = self._tail[: best[0]]
        elif len(self._tail) > LONGEST:
            self._before.add(self._tail[:-LONGEST])
            self._tail = self._tail[-LONGEST:]


class _LastText:
    """Text from which only the end is kept."""

    def __init__(self) -> None:
        self._kept = io.StringIO()
        self.dropped = 0

    def add(self, text: str) -> None:
        self._kept.write(text)
        if self._kept.tell() > 2 * KEEP:
            self._cut()

    @property
    def text(self) -> str:
        self._cut()
        return self._kept.getvalue()

    def _cut(self) -> None:
        if (count := self._kept.tell() - KEEP) <= 0:
            return
        rest = self._kept.getvalue()[count:]
        self._kept = io.StringIO()
        self._kept.write(rest)
        self.dropped += count


MOST_PLACES = 500
"""Shells whose places are kept; the oldest are forgotten first."""
LONGEST_KEPT = 32 << 10
"""Characters of text that are kept for one."""


@dataclass(frozen=True, slots=True)
class ReadingPlace:
    """A position in a command's output: the unread part received so far, and the offset after it."""

    command_id: str
    offset: int
    text: str = ""


class UnreadOutput:
    """The places of all shells; any thread can ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: OrderedDict[tuple[str, str], ReadingPlace] = OrderedDict()

    def keep(self, session: str, shell: str, place: ReadingPlace) -> None:
        """Note where a caller has stopped."""
        kept = ReadingPlace(place.command_id, place.offset, place.text[-LONGEST_KEPT:])
        with self._lock:
            self._places.pop((session, shell), None)
            self._places[session, shell] = kept
            while len(self._places) > MOST_PLACES:
                self._places.popitem(last=False)

    def take(self, session: str, shell: str, command_id: str) -> ReadingPlace | None:
        """Return where the caller has stopped reading a command, and forget it."""
        with self._lock:
            found = self._places.pop((session, shell), None)
        return found if found is not None and found.command_id == command_id else None
