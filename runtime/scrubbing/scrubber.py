"""Removes secrets from text that leaves this machine: JSON values, failure records, journal entries, whole
texts; and streams that come in pieces, delayed no longer than necessary. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from holdfast.runtime.scrubbing.known_forms import BODY, PRIVATE_KEY
from holdfast.runtime.scrubbing.rule import LONGEST, Matcher, compiled
from holdfast.runtime.store.entry import Entry
from holdfast.snapshots.failure import Failure

Json = TypeVar("Json", bound=Any)
MOST_HELD = 64 << 10
"""Limit of bytes that wait."""
_ENDS = b"\n\r"
_BEGIN = b"-----BEGIN "
_UNFINISHED = compiled(rf"{PRIVATE_KEY}{BODY}*(?:-[A-Z0-9 -]*)?")


class Scrubber:
    """Replaces the matches of a matcher, and counts them by rule."""

    def __init__(self, matcher: Matcher) -> None:
        self.matcher = matcher
        self.counts: Counter[str] = Counter()

    def data(self, data: bytes, start: int = 0) -> bytes:
        """Return bytes from `start` on, without secrets; earlier bytes only count as context."""
        pieces, at = [], start
        for match in self.matcher.find(data, start):
            pieces += [data[at : match.start], mark(match.rule.name)]
            at = match.end
            self.counts[match.rule.name] += 1
        return b"".join([*pieces, data[at:]]) if pieces else data[start:]

    def text(self, text: str) -> str:
        """Return text without secrets."""
        encoded = text.encode("utf-8", "surrogatepass")
        scrubbed = self.data(encoded)
        if scrubbed == encoded:
            return text
        try:
            return scrubbed.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:  # a user's expression ends within a character
            return scrubbed.decode("utf-8", "replace")

    def value(self, value: Json) -> Json:
        """Return a JSON value in which no text holds a secret, keys included."""
        found: Any = value
        if isinstance(value, str):
            found = self.text(value)
        elif isinstance(value, dict):
            found = {self.value(key): self.value(each) for key, each in value.items()}
        elif isinstance(value, list | tuple):
            found = [self.value(each) for each in value]
        return found  # type: ignore[no-any-return]

    def failure(self, record: Failure) -> Failure:
        """Return a failure record without secrets."""
        return Failure.model_validate(self.value(record.as_details()))


def mark(rule: str) -> bytes:
    """Return the mark that replaces a secret."""
    return f"[scrubbed: {rule}]".encode()


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
        """Process more of the stream; return the part that can be shown by now."""
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
        """Return the held-back part when the stream ended."""
        held, self._held = self._held, b""
        return self._scrubbed(held)

    def _scrubbed(self, data: bytes) -> bytes:
        before, self._before = self._before, data[-1:] or self._before
        return self._scrubber.data(before + data, len(before))

    def _sure(self, data: bytes) -> int:
        """Return the beginning of the part that can be, or become, a match."""
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
        """Return the beginning of the word at a place: some expressions check the preceding text."""
        space = max(data.rfind(blank, line, at) for blank in (b" ", b"\t"))
        return line if space < 0 else space + 1


def without_secrets(entries: Iterable[Entry], matcher: Matcher) -> list[Entry]:
    """Return the entries with everything that the matcher finds removed from their details."""
    scrubber = Scrubber(matcher)
    return [replace(entry, details=scrubber.value(dict(entry.details))) for entry in entries]
