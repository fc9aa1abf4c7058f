"""Rules for values that are known: those of variables whose names tell that they are secret. Pure.

The values are in the rules that come of this, and so in memory; they are written down nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from holdfast.runtime.scrubbing import forms
from holdfast.runtime.scrubbing.matcher import escaped
from holdfast.runtime.scrubbing.rule import Rule

SHORTEST = 8
"""Characters of a value that is looked for: shorter ones are in gigabytes of memory by chance."""
MOST = 500
MOST_CHARACTERS = 4096
"""Of one value; of a longer one the beginning is looked for."""


def rules(variables: Mapping[str, str], names: Sequence[str]) -> Iterator[Rule]:
    """A rule for each variable whose name fits one of `names`, in which `*` is anything."""
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
