"""Finds secrets in data that only passes by and cannot be altered, wherever it is cut. Pure.

What is found is counted by place, never kept. Who writes the data may write a flood of what looks like
secrets: a rule that has found so many in one source is not looked for in the rest of it, others are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from holdfast.runtime.scrubbing.matcher import LONGEST, Matcher

MOST = 2000
"""Finds of one rule in one source that are counted."""
_ZEROS = bytes(1 << 20)


class Search:
    """One source: a file, a layer, the memory of a process.

    Args:
        matcher: what is looked for.
        place: says which part of the source an offset is in.
    """

    def __init__(self, matcher: Matcher, place: Callable[[int], str] = lambda _at: "") -> None:
        self._matcher = matcher
        self._place = place
        self._held = b""
        self._begin = 0
        self._from = 0
        self._counts: Counter[str] = Counter()
        self.found: Counter[tuple[str, str]] = Counter()
        """How often, by rule and place."""

    @property
    def more(self) -> frozenset[str]:
        """Rules of which so many were found that not all were counted."""
        return frozenset(rule for rule, count in self._counts.items() if count >= MOST)

    def feed(self, data: bytes) -> None:
        """The next bytes."""
        if data == _ZEROS[: len(data)]:
            self.skip(len(data))
        else:
            self._look(self._held + data, last=False)

    def skip(self, size: int) -> None:
        """So many zeros, in which nothing is, and over which nothing goes."""
        if self._held:
            self._look(self._held + b"\0", last=True)
        self._begin += len(self._held) + size - (1 if self._held else 0)
        self._held, self._from = b"", 0

    def end(self) -> None:
        """There is no more."""
        self._look(self._held, last=True)
        self._held = b""

    def _look(self, data: bytes, *, last: bool) -> None:
        """Count what begins early enough to be here as a whole; the rest waits for what follows."""
        sure = len(data) if last else len(data) - LONGEST
        after = self._from
        while match := next(self._matcher.find(data, after), None):
            if match.begin >= sure:
                break
            after = match.end
            self.found[match.rule.name, self._place(self._begin + match.start)] += 1
            self._counts[match.rule.name] += 1
            if self._counts[match.rule.name] >= MOST:
                self._matcher = self._matcher.without(match.rule)
        # One byte stays in front, for expressions that ask what precedes.
        keep = max(0, after - 1, sure - 1)
        self._held = data[keep:]
        self._from = max(after, sure, 0) - keep
        self._begin += keep
