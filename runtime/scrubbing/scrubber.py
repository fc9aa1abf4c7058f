"""Removes secrets from text that leaves this machine: JSON values, failure records, whole texts. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeVar

from holdfast.runtime.scrubbing.matcher import Matcher
from holdfast.snapshots.failure import Failure

Json = TypeVar("Json", bound=Any)


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
