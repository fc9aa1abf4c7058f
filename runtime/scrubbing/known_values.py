"""Known secret values: their possible written forms (plain, by lines, as in URLs, JSON and base64), and rules
for the values of variables with secret-sounding names. Pure.

The values are in the resulting rules, and so in memory; they are never written to disk.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from urllib.parse import quote

from holdfast.runtime.scrubbing.rule import Rule, escaped

SHORTEST_HIDDEN = 4
"""Minimal length of a value; hiding shorter ones would garble ordinary text."""
SHORTEST_LINE = 8
_WORDS = frozenset(
    {"true", "false", "none", "null", "always", "never", "auto", "default", "enabled", "disabled"}
)
SHORTEST_SEARCHED = 8
"""Minimal length of a value that is searched for: gigabytes of memory have shorter ones by chance."""
MOST = 500
MOST_CHARACTERS = 4096
"""Limit per value; only the beginning of a longer one is searched for."""


def can_be_hidden(value: str) -> bool:
    """Return whether a value can be hidden without garbling text that is not secret."""
    return len(value) >= SHORTEST_HIDDEN and value.lower() not in _WORDS


def forms(value: str) -> Iterator[str]:
    """Return all forms of a value; some can be equal."""
    yield value
    stripped = value.strip()
    if len(stripped) >= SHORTEST_HIDDEN:
        yield stripped
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= SHORTEST_LINE)
    yield quote(value, safe="")
    yield json.dumps(value)[1:-1]
    for text in {value, stripped}:
        yield base64.b64encode(text.encode("utf-8", "surrogateescape")).decode("ascii")


def rules(variables: Mapping[str, str], names: Sequence[str]) -> Iterator[Rule]:
    """Return a rule for each variable whose name fits one of `names`, in which `*` matches anything."""
    chosen = [
        (name, value)
        for name, value in sorted(variables.items())
        if any(fnmatchcase(name, pattern) for pattern in names)
        and len(value.strip()) >= SHORTEST_SEARCHED
        and can_be_hidden(value)
    ]
    for name, value in chosen[:MOST]:
        texts = {each for each in forms(value[:MOST_CHARACTERS]) if len(each) >= SHORTEST_SEARCHED}
        written = {text.encode("utf-8", "surrogateescape") for text in texts}
        written |= {value.encode("utf-16-le", "surrogatepass")}
        longest = sorted(written, key=lambda each: (-len(each), each))
        yield Rule(f"value of {name}"[:60], "|".join(map(escaped, longest)))
