"""Removes the values of secrets from all text: streams, summaries, failure records. Pure.

Names of variables say which values are secret, because CI systems keep their secrets in the environment. A
value is searched for as is, by lines, and in the forms of base64, URLs and JSON. Secrets that the job was not
given, such as a token that it made itself, are found by the rules of the home (`runtime/scrubbing`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from holdfast.runtime.guest.records import masking
from holdfast.runtime.scrubbing import known_values
from holdfast.runtime.scrubbing import scrubber as scrubbing
from holdfast.runtime.scrubbing.rule import Matcher
from holdfast.runtime.scrubbing.scrubber import Scrubber
from holdfast.snapshots.failure import Failure

MASK = "***"
MOST = 2000
"""Limit of texts that are searched together."""
_NAMES = re.compile(r"KEY|(?:^|_)DSN(?:_|$)", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"://[^/@\s:]*:([^/@\s]+)@")

Json = TypeVar("Json", bound=Any)


def secret_name(name: str, patterns: Sequence[str] = ()) -> bool:
    """Return whether a variable of this name holds a secret, by its name or by patterns such as `MY_*`."""
    if masking.secret(name) or _NAMES.search(name):
        return True
    return any(fnmatchcase(name.upper(), pattern.upper()) for pattern in patterns)


class Redaction:
    """The secrets that must not be shown.

    Args:
        variables: all known variables; those with the name of a secret count.
        patterns: more names, in which `*` matches anything.
        matcher: finds secrets that no variable holds.
    """

    def __init__(
        self, variables: Mapping[str, str], patterns: Sequence[str] = (), matcher: Matcher | None = None
    ) -> None:
        self._scrubber = Scrubber(matcher) if matcher is not None else None
        self._patterns = tuple(patterns)
        chosen = {name: value for name, value in variables.items() if self.secret(name)}
        for name, value in variables.items():
            chosen |= {f"{name}: password": word for word in _IN_ADDRESS.findall(value) if name not in chosen}
        self.names = tuple(
            sorted(name for name, value in chosen.items() if known_values.can_be_hidden(value))
        )
        self.too_short = tuple(
            sorted(name for name, value in chosen.items() if value and not known_values.can_be_hidden(value))
        )
        found = {form for name in self.names for form in known_values.forms(chosen[name])}
        texts = sorted((form.encode("utf-8", "surrogateescape") for form in found), key=len, reverse=True)
        self.secrets = tuple(texts[:MOST])
        self._any = re.compile(b"|".join(map(re.escape, self.secrets))) if self.secrets else None

    def secret(self, name: str) -> bool:
        """Return whether the value of a variable of this name must not be shown."""
        return secret_name(name, self._patterns)

    def data(self, data: bytes) -> bytes:
        """Return bytes without secrets."""
        data = self.without_values(data)
        return data if self._scrubber is None else self._scrubber.data(data)

    def without_values(self, data: bytes) -> bytes:
        """Return bytes without the values of variables."""
        return data if self._any is None else self._any.sub(MASK.encode(), data)

    def text(self, text: str) -> str:
        """Return text without secrets, and without the passwords of addresses in it."""
        encoded = text.encode("utf-8", "surrogateescape")
        return masking.address(self.data(encoded).decode("utf-8", "surrogateescape"))

    def value(self, value: Json) -> Json:
        """Return a JSON value in which no text holds a secret."""
        found: Any = value
        if isinstance(value, str):
            found = self.text(value)
        elif isinstance(value, dict):
            found = {key: self.value(each) for key, each in value.items()}
        elif isinstance(value, list):
            found = [self.value(each) for each in value]
        return found  # type: ignore[no-any-return]

    def failure(self, record: Failure) -> Failure:
        """Return a failure record without secrets."""
        return Failure.model_validate(self.value(record.as_details()))

    def stream(self) -> RedactedStream:
        """Return a filter for a stream that comes in pieces."""
        return RedactedStream(
            self, scrubbing.ScrubbedStream(self._scrubber) if self._scrubber is not None else None
        )

    def undecided(self, data: bytes) -> int:
        """Return the beginning of a possible secret that the end of data cuts off; else the length of
        data."""
        least = len(data)
        for secret in self.secrets:
            at = data.find(secret[:1], max(0, len(data) - len(secret) + 1), least)
            while at >= 0:
                if secret.startswith(data[at:]):
                    least = at
                    break
                at = data.find(secret[:1], at + 1, least)
        return least

    def matches(self, data: bytes) -> Iterator[re.Match[bytes]]:
        """Return the secrets in data."""
        return iter(()) if self._any is None else self._any.finditer(data)


class RedactedStream:
    """A filter that redacts a stream, however it is cut. A possible secret waits for the next text."""

    def __init__(self, redaction: Redaction, rest: scrubbing.ScrubbedStream | None = None) -> None:
        self._redaction = redaction
        self._rest = rest
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Process more of the stream; return the part that can be shown by now."""
        data = self._held + data
        undecided = self._redaction.undecided(data)
        shown, at = [], 0
        for found in self._redaction.matches(data):
            if found.start() >= undecided:
                break
            shown += [data[at : found.start()], MASK.encode()]
            at = found.end()
        undecided = at + self._redaction.undecided(data[at:])
        self._held = data[undecided:]
        passed = b"".join([*shown, data[at:undecided]])
        return passed if self._rest is None else self._rest.feed(passed)

    def end(self) -> bytes:
        """Return the held-back part when the stream ended."""
        held, self._held = self._held, b""
        last = self._redaction.without_values(held)
        return last if self._rest is None else self._rest.feed(last) + self._rest.end()
