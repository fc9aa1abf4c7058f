"""Rules: an expression for a kind of secret, which part of a match counts, and a search of whole
bytes. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import re2

from holdfast.errors import InvalidArgument

NAME_LENGTH = 60
PATTERN_LENGTH = 2000
_MEMORY = 64 << 20
"""The most bytes of an automaton; an expression that needs more is searched more slowly."""
LONGEST = 8 << 10
"""Bytes of the longest match found whole wherever data is cut; of longer ones the beginning is found."""
_GROUP = re.compile(r"(?<!\\)\(\?P?<[A-Za-z_]\w*>")
_WIDE = r"(?:[\t\n\r\x20-\x7e]\x00){12,}"


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


@dataclass(frozen=True, slots=True)
class Match:
    """A secret: its range and its rule. `begin` is the start of the text that identifies it."""

    start: int
    end: int
    rule: Rule
    begin: int


class Matcher:
    """All rules together.

    Args:
        rules: earlier ones win where two match at the same place.
        allowed: expressions for text that is not secret although a rule matches it; all of a secret must
            match.
        wide: also find matches with a known beginning in UTF-16, as memory has it.

    Raises:
        InvalidArgument: they are too much for one automaton.
    """

    def __init__(self, rules: Sequence[Rule], allowed: Sequence[str] = (), *, wide: bool = False) -> None:
        self.rules = tuple(rules)
        self.allowed = tuple(allowed)
        self.wide = wide
        self._each = [compiled(rule.pattern) for rule in self.rules]
        self._allowed = compiled("|".join(f"(?:{each})" for each in allowed)) if allowed else None
        patterns = [f"(?:{_GROUP.sub('(?:', rule.pattern)})" for rule in self.rules]
        begins = sorted({text for rule in self.rules for text in rule.begins}) if wide else []
        if begins:
            patterns.append(f"(?:{'|'.join(escaped(text.encode('utf-16-le')) for text in begins)}){_WIDE}")
        try:
            self._any: Any = compiled("|".join(patterns)) if patterns else None
        except ValueError as error:
            raise InvalidArgument(f"the rules cannot be used together: {error}") from None

    def without(self, rule: Rule) -> Matcher:
        """Return a matcher without one of the rules."""
        left = [each for each in self.rules if each != rule]
        return Matcher(left, self.allowed, wide=self.wide)

    def find(self, data: bytes, start: int = 0) -> Iterator[Match]:
        """Yield the secrets in data from `start` on, in order; earlier bytes only count as context."""
        while self._any is not None and (found := self._any.search(data, start)):
            yield from self._judged(data, found.start(), found.end())
            start = max(found.end(), start + 1)

    def _judged(self, data: bytes, start: int, end: int) -> Iterator[Match]:
        for rule, expression in zip(self.rules, self._each, strict=True):
            if found := expression.match(data, start):
                first, last = found.span(expression.groupindex.get(b"secret", 0))
                if first < 0:  # a branch of the expression without the group
                    first, last = found.span()
                if self._counts(rule, data[first:last]):
                    yield Match(first, last, rule, start)
                return
        if data[start + 1 : start + 2] == b"\0":
            narrow = data[start:end:2]
            for match in self.find(narrow):
                first, last = start + 2 * match.start, start + 2 * match.end
                yield Match(first, last, match.rule, start)

    def _counts(self, rule: Rule, secret: bytes) -> bool:
        return rule.is_secret(secret) and not (self._allowed and self._allowed.fullmatch(secret))


def escaped(text: bytes) -> str:
    """Return an expression for exactly these bytes."""
    return "".join(f"\\x{byte:02x}" for byte in text)
