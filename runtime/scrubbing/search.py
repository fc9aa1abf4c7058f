"""Finds secrets in data that passes by and cannot be altered, wherever it is cut. Pure.

Matches are counted by place, never kept. The author of the data may write a flood of apparent secrets: a rule
with too many matches in one source is not searched for in the rest of it; the others are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from holdfast.runtime.scrubbing.matcher import LONGEST, Match, Matcher

MOST = 2000
"""Limit of counted matches of one rule in one source."""
_ZEROS = bytes(1 << 20)


class Search:
    """One source: a file, a layer, the memory of a process.

    Args:
        matcher: the rules to search for.
        place: returns the part of the source that an offset is in.
    """

    def __init__(self, matcher: Matcher, place: Callable[[int], str] = lambda _at: "") -> None:
        self._matcher = matcher
        self._place = place
        self._held = b""
        self._begin = 0
        self._from = 0
        self._counts: Counter[str] = Counter()
        self.found: Counter[tuple[str, str]] = Counter()
        """Number of matches, by rule and place."""

    @property
    def more(self) -> frozenset[str]:
        """The rules of which not all matches were counted."""
        return frozenset(rule for rule, count in self._counts.items() if count >= MOST)

    def feed(self, data: bytes) -> None:
        """Process the next bytes."""
        if data == _ZEROS[: len(data)]:
            self.skip(len(data))
        else:
            self._look(self._held + data, last=False)

    def skip(self, size: int) -> None:
        """Skip this many zeros, which hold no match and which no match spans."""
        if self._held:
            self._look(self._held + b"\0", last=True)
        self._begin += len(self._held) + size - (1 if self._held else 0)
        self._held, self._from = b"", 0

    def within(self, data: bytes, first: int, last: int, *, alone: bool = True) -> None:
        """Process a stretch on its own: `data[first:last]` between what surrounds it.

        Matches that begin in it count; if it is `alone`, those too that begin before it and reach into it.
        """
        after = 0
        while (match := next(self._matcher.find(data, after), None)) and match.begin < last:
            after = match.end
            if match.begin >= first or (alone and match.end > first):
                self._count(match, self._place(match.start))

    def end(self) -> None:
        """Process the end of the data."""
        self._look(self._held, last=True)
        self._held = b""

    def _look(self, data: bytes, *, last: bool) -> None:
        """Count matches that begin early enough to be here as a whole; the rest waits for what follows."""
        sure = len(data) if last else len(data) - LONGEST
        after = self._from
        while match := next(self._matcher.find(data, after), None):
            if match.begin >= sure:
                break
            after = match.end
            self._count(match, self._place(self._begin + match.start))
        # One byte stays in front, for expressions that check what precedes.
        keep = max(0, after - 1, sure - 1)
        self._held = data[keep:]
        self._from = max(after, sure, 0) - keep
        self._begin += keep

    def _count(self, match: Match, place: str) -> None:
        self.found[match.rule.name, place] += 1
        self._counts[match.rule.name] += 1
        if self._counts[match.rule.name] >= MOST:
            self._matcher = self._matcher.without(match.rule)
