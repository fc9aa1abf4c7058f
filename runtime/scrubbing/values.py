"""Rules for known values: those of variables whose names say that they are secret. Pure.

The values are in the resulting rules, and so in memory; they are never written to disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from holdfast.runtime.scrubbing import forms
from holdfast.runtime.scrubbing.matcher import escaped
from holdfast.runtime.scrubbing.rule import Rule

SHORTEST = 8
"""Minimal length of a value that is searched for: gigabytes of memory have shorter ones by chance."""
MOST = 500
MOST_CHARACTERS = 4096
"""Limit per value; only the beginning of a longer one is searched for."""


def rules(variables: Mapping[str, str], names: Sequence[str]) -> Iterator[Rule]:
    """Return a rule for each variable whose name fits one of `names`, in which `*` matches anything."""
    chosen = [
        (name, value)
        for name, value in sorted(variables.items())
        if any(fnmatchcase(name, pattern) for pattern in names)
        and len(value.strip()) >= SHORTEST
        and forms.hidden(value)
    ]
    for name, value in chosen[:MOST]:
        texts = {each for each in forms.of(value[:MOST_CHARACTERS]) if len(each) >= SHORTEST}
        written = {text.encode("utf-8", "surrogateescape") for text in texts}
        written |= {value.encode("utf-16-le", "surrogatepass")}
        longest = sorted(written, key=lambda each: (-len(each), each))
        yield Rule(f"value of {name}"[:60], "|".join(map(escaped, longest)))
