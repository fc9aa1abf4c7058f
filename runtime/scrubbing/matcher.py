"""Finds the matches of rules in bytes that are available as a whole. Pure.

One automaton for all rules decides in one pass that there is no match, which is nearly always so. Only where
it finds one are the rules tried individually.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.errors import InvalidArgument
from holdfast.runtime.scrubbing.rule import Rule, compiled

LONGEST = 8 << 10
"""Bytes of the longest match found whole wherever data is cut; of longer ones the beginning is found."""
_GROUP = re.compile(r"(?<!\\)\(\?P?<[A-Za-z_]\w*>")
_WIDE = r"(?:[\t\n\r\x20-\x7e]\x00){12,}"


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
