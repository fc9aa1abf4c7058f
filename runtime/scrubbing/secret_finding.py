"""Secrets found in data that cannot be altered, as values and text: rule, place, number; never the secret."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.base.text import plain
from holdfast.runtime.scrubbing.matcher import Matcher
from holdfast.runtime.scrubbing.scrubber import Scrubber

SHOWN = 12
MOST = 500
"""Limit of findings kept per snapshot."""


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
        found = {"rule": self.rule, "count": self.count, "where": self.where, "kind": self.kind}
        return found | ({"more": True} if self.more else {})


def of(
    counts: Mapping[tuple[str, str], int], kind: str, matcher: Matcher, more: Collection[str] = ()
) -> list[SecretFinding]:
    """Return the findings of counts by rule and place; of the rules in `more` not all were counted.

    A place may itself hold what `matcher` finds: programs name files after addresses and tokens.
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
    )[:MOST]


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
