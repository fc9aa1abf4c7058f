"""A rule: an expression for a kind of secret, and which part of a match counts. Pure.

Expressions are those of RE2: the time for a text only grows with its length, whatever it contains. They work
on bytes (as ISO 8859-1), because they search memory as often as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import re2

from holdfast.errors import InvalidArgument

NAME_LENGTH = 60
PATTERN_LENGTH = 2000
_MEMORY = 64 << 20
"""Bytes that an automaton may take; an expression that needs more is searched more slowly."""


def compiled(pattern: str | bytes) -> Any:
    """Return a compiled expression.

    Raises:
        ValueError: it is not valid; the message is the reason.
    """
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.max_mem = _MEMORY
    text = pattern.encode("latin-1") if isinstance(pattern, str) else pattern
    try:
        return re2.compile(text, options)
    except re2.error as error:
        [why] = error.args or ("it is not a valid expression",)
        raise ValueError(why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)) from None


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of secret.

    Attributes:
        name: the name that reports use.
        pattern: of RE2. Its group called `secret` matches the secret; without one, the whole match is.
        begins: texts with one of which each match begins; they also find it in UTF-16.
        hints: texts in lower case, one of which is in every line with a match or the beginning of one.
            They keep a stream from being delayed needlessly; () if there are none.
        distinct: minimal number of distinct characters in a secret; fewer are a placeholder such as
            `xxxx`.
        placeholders: values that are not secret, in lower case.
    """

    name: str
    pattern: str
    begins: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    distinct: int = 0
    placeholders: frozenset[str] = frozenset()

    @property
    def search_hints(self) -> tuple[str, ...]:
        """The hints; by default, the known beginnings."""
        return self.hints or tuple(text.lower() for text in self.begins)

    def is_secret(self, found: bytes) -> bool:
        """Return whether a match looks like a secret, and not like an example."""
        if self.distinct and len(set(found)) < self.distinct:
            return False
        text = found.decode("latin-1").lower()
        return text not in self.placeholders and not (self.distinct and "example" in text)


def checked(name: str, pattern: str) -> Rule:
    """Return a user's rule.

    Raises:
        InvalidArgument: it cannot be used.
    """
    if not (name and len(name) <= NAME_LENGTH and name.isprintable() and "]" not in name):
        raise InvalidArgument(f"a name has 1 to {NAME_LENGTH} printable characters without ]")
    if len(pattern) > PATTERN_LENGTH:
        raise InvalidArgument(f"the regex of '{name}' has more than {PATTERN_LENGTH} characters")
    try:
        empty = compiled(pattern.encode()).search(b"")
    except ValueError as error:
        raise InvalidArgument(f"the regex of '{name}' cannot be used: {error}") from None
    if empty:
        raise InvalidArgument(f"the regex of '{name}' matches empty text")
    return Rule(name, pattern.encode().decode("latin-1"))
