"""What one rule is: an expression for a kind of secret, and what of a match counts. Pure.

Expressions are those of RE2: the time for a text grows with its length only, whatever is in it. They work on
bytes (as ISO 8859-1), for what they are looked for in is memory as often as text.
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
    """An expression, ready to be searched for in bytes. Raises ValueError with the reason."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.max_mem = _MEMORY
    text = pattern.encode("latin-1") if isinstance(pattern, str) else pattern
    try:
        return re2.compile(text, options)
    except re2.error as error:
        [why] = error.args or ("it is not an expression",)
        raise ValueError(why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)) from None


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of secret.

    Attributes:
        name: as it is told.
        pattern: of RE2. What its group called `secret` has is the secret; without one, all of a match.
        begins: texts with one of which each match begins; by them it is found in UTF-16, too.
        hints: texts in lower case of which a line has one when it has a match, or the beginning of one. By
            them a stream is held up no longer than it must be; () if that cannot be said.
        distinct: different characters that a secret has at least; fewer are a placeholder such as `xxxx`.
        placeholders: secrets that are none, in lower case.
    """

    name: str
    pattern: str
    begins: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    distinct: int = 0
    placeholders: frozenset[str] = frozenset()

    @property
    def told_by(self) -> tuple[str, ...]:
        """The hints, which for what begins in a known way need not be said."""
        return self.hints or tuple(text.lower() for text in self.begins)

    def is_secret(self, found: bytes) -> bool:
        """Whether what was matched has the look of a secret, and not of an example."""
        if self.distinct and len(set(found)) < self.distinct:
            return False
        text = found.decode("latin-1").lower()
        return text not in self.placeholders and not (self.distinct and "example" in text)


def checked(name: str, pattern: str) -> Rule:
    """A rule that somebody wrote. Raises InvalidArgument: it cannot be used."""
    if not (name and len(name) <= NAME_LENGTH and name.isprintable() and "]" not in name):
        raise InvalidArgument(f"a name has 1 to {NAME_LENGTH} printable characters without ]")
    if len(pattern) > PATTERN_LENGTH:
        raise InvalidArgument(f"the regex of '{name}' has more than {PATTERN_LENGTH} characters")
    try:
        empty = compiled(pattern.encode()).search(b"")
    except ValueError as error:
        raise InvalidArgument(f"the regex of '{name}' cannot be used: {error}") from None
    if empty:
        raise InvalidArgument(f"the regex of '{name}' matches where nothing is")
    return Rule(name, pattern.encode().decode("latin-1"))
