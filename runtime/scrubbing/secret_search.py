"""Secrets found in passing data that cannot be altered, however they are cut. Pure.

A finding has a rule, a place and a number, never the secret. The author of the data can write a flood of
apparent secrets: a rule with too many matches in one source is not searched for in the rest of it; the
others are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.base.text import plain
from holdfast.base.value_classes import as_table
from holdfast.runtime.scrubbing.rule import LONGEST, Match, Matcher
from holdfast.runtime.scrubbing.scrubber import Scrubber

SHOWN = 12
MOST_FINDINGS = 500
"""Limit of findings kept per snapshot."""
MOST_MATCHES = 2000
"""Limit of counted matches of one rule in one source."""
_ZEROS = bytes(1 << 20)


@dataclass(frozen=True, slots=True)
class SecretFinding:
    """Matches of one rule in one place.

    Attributes:
        rule: the name of the rule.
        count: the number of matches that were counted.
        where: a path in the session, or the process whose memory it is.
        kind: `layer`, `memory`, `shared memory`, `images` (contents of pipes, sockets, terminals and
            deleted files), `record`.
        more: there may be more than were counted.
    """

    rule: str
    count: int
    where: str
    kind: str
    more: bool = False

    def __str__(self) -> str:
        count = f"{self.count}{' or more' if self.more else ''}"
        about = "" if self.kind in ("memory", "images", "record") else f" ({self.kind})"
        return f"{count} × {self.rule} in {self.where}{about}"

    def as_dict(self) -> dict[str, Any]:
        """Return the finding for programs."""
        return as_table(self) if self.more else as_table(self, "more")


def findings(
    counts: Mapping[tuple[str, str], int], kind: str, matcher: Matcher, more: Collection[str] = ()
) -> list[SecretFinding]:
    """Return the findings of counts by rule and place; of the rules in `more` not all were counted.

    A place can itself hold a secret that `matcher` finds: programs name files after addresses and tokens.
    """
    places = Scrubber(matcher)
    return [
        SecretFinding(rule, count, plain(places.text(where), 300), kind, rule in more)
        for (rule, where), count in counts.items()
    ]


def ordered(found: Iterable[SecretFinding]) -> tuple[SecretFinding, ...]:
    """Return one finding for each rule and place, files first; bounded."""
    counts: Counter[tuple[str, str, str]] = Counter()
    more: set[tuple[str, str, str]] = set()
    for one in found:
        key = (one.kind, one.where, one.rule)
        counts[key] += one.count
        if one.more:
            more.add(key)
    return tuple(
        SecretFinding(key[2], count, key[1], key[0], key in more) for key, count in sorted(counts.items())
    )[:MOST_FINDINGS]


def listed(found: Sequence[SecretFinding], most: int = 4) -> str:
    """Return the first of them in one line."""
    rest = len(found) - most
    return ", ".join(str(one) for one in found[:most]) + (f", and {rest} more" if rest > 0 else "")


def sentences(found: Sequence[SecretFinding], scrubbed: Mapping[str, int]) -> list[str]:
    """Return the lines that report an export's secrets."""
    lines = [f"found: {one}" for one in found[:SHOWN]]
    if len(found) > SHOWN:
        lines.append(f"found: secrets in {len(found) - SHOWN} more places")
    if scrubbed:
        rules = ", ".join(f"{count} × {rule}" for rule, count in sorted(scrubbed.items()))
        lines.append(f"scrubbed from its journal, records and descriptions: {rules}")
    return lines


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
        return frozenset(rule for rule, count in self._counts.items() if count >= MOST_MATCHES)

    def feed(self, data: bytes) -> None:
        """Process the next bytes."""
        if data == _ZEROS[: len(data)]:
            self.skip(len(data))
        else:
            self._look(self._held + data, last=False)

    def skip(self, size: int) -> None:
        """Skip this many zeros, which neither contain nor are spanned by a match."""
        if self._held:
            self._look(self._held + b"\0", last=True)
        self._begin += len(self._held) + size - (1 if self._held else 0)
        self._held, self._from = b"", 0

    def within(self, data: bytes, first: int, last: int, *, alone: bool = True) -> None:
        """Process a stretch on its own: `data[first:last]` with its surroundings.

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
        """Count matches that are complete; the rest waits for further data."""
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
        if self._counts[match.rule.name] >= MOST_MATCHES:
            self._matcher = self._matcher.without(match.rule)
