"""Old names of options, which still work for one release with a note. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

OPTIONS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("export", "--refuse-secrets"): ("--secrets", "refuse"),
    ("push", "--refuse-secrets"): ("--secrets", "refuse"),
    ("wait", "--timeout"): ("--patience",),
}
"""The words that replace an old option of a verb."""
_WITH_VALUE = ("--as", "--reason")
"""Options before the verb that take the next word."""


def translated(given: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return a command line with old names replaced, and a note for each that was."""
    at = verb_index(given)
    words, notes = list(given[: at + 1]), []
    rest = list(given[at + 1 :])
    end = rest.index("--") if "--" in rest else len(rest)
    for word in rest[:end]:
        name, equals, value = word.partition("=")
        new = OPTIONS.get((given[at], name))
        if new is None:
            words.append(word)
            continue
        words += [*new[:-1], new[-1] + equals + value]
        notes.append(f"{name} is now {' '.join(new)}; the old name goes with the next release")
    return words + rest[end:], notes


def verb_index(given: Sequence[str]) -> int:
    """Return the index of the verb, or of the last word if there is none."""
    at = 0
    while at < len(given) - 1 and given[at].startswith("-"):
        at += 2 if given[at] in _WITH_VALUE else 1
    return min(at, len(given) - 1)
