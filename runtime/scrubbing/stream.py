"""Removes secrets from a stream that comes in pieces, delaying it no longer than necessary. Pure.

A line without a hint of a rule passes as it comes. A line with one waits for its end, and the beginning of a
private key for its last line.
"""

from __future__ import annotations

from holdfast.runtime.scrubbing.known_forms import BODY, PRIVATE_KEY
from holdfast.runtime.scrubbing.matcher import LONGEST
from holdfast.runtime.scrubbing.rule import compiled
from holdfast.runtime.scrubbing.scrubber import Scrubber

MOST_HELD = 64 << 10
"""Limit of bytes that wait."""
_ENDS = b"\n\r"
_BEGIN = b"-----BEGIN "
_UNFINISHED = compiled(rf"{PRIVATE_KEY}{BODY}*(?:-[A-Z0-9 -]*)?")


class ScrubbedStream:
    """Scrubs a stream, however it is cut."""

    def __init__(self, scrubber: Scrubber) -> None:
        rules = scrubber.matcher.rules
        self._scrubber = scrubber
        self._all_lines = any(not rule.search_hints for rule in rules)
        self._hints = tuple({hint.encode() for rule in rules for hint in rule.search_hints})
        self._longest = max((len(hint) for hint in self._hints), default=0)
        self._held = b""
        self._before = b""

    def feed(self, data: bytes) -> bytes:
        """Process more of the stream; return what can be shown by now."""
        data = self._held + data
        sure = self._sure(data)
        if len(data) - sure > MOST_HELD:
            sure = len(data) - LONGEST
            # A match that spans this place is removed as a whole.
            spans = ((match.begin, match.end) for match in self._scrubber.matcher.find(data))
            sure = next((end for start, end in spans if start < sure < end), sure)
        self._held = data[sure:]
        return self._scrubbed(data[:sure])

    def end(self) -> bytes:
        """Return what was held back when the stream ended."""
        held, self._held = self._held, b""
        return self._scrubbed(held)

    def _scrubbed(self, data: bytes) -> bytes:
        before, self._before = self._before, data[-1:] or self._before
        return self._scrubber.data(before + data, len(before))

    def _sure(self, data: bytes) -> int:
        """Return the beginning of the part that may be, or become, a match."""
        line = 1 + max(data.rfind(bytes([end])) for end in _ENDS)
        key = data.rfind(_BEGIN)
        if key >= 0 and _UNFINISHED.fullmatch(data[key:]):
            line = min(line, 1 + max(data.rfind(bytes([end]), 0, key) for end in _ENDS))
        rest = data[line:].lower()
        if self._all_lines or any(hint in rest for hint in self._hints):
            return line
        # The end may be the beginning of a hint.
        for size in range(min(self._longest, len(rest)), 0, -1):
            if any(hint.startswith(rest[-size:]) for hint in self._hints):
                return self._word(data, line, len(data) - size)
        return len(data)

    def _word(self, data: bytes, line: int, at: int) -> int:
        """Return the beginning of the word at a place: some expressions check what precedes."""
        space = max(data.rfind(blank, line, at) for blank in (b" ", b"\t"))
        return line if space < 0 else space + 1
