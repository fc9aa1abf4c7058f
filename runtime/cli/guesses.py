"""Translation of words that people know from other tools or an older release. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

GUESSES: Mapping[str, tuple[str, ...]] = {
    "ps": ("ls",),
    "list": ("ls",),
    "create": ("new",),
    "delete": ("rm",),
    "remove": ("rm",),
    "destroy": ("rm",),
    "stop": ("suspend",),
    "pause": ("suspend",),
    "start": ("resume",),
    "unpause": ("resume",),
    "ssh": ("attach",),
    "shell": ("attach",),
    "enter": ("attach",),
    "connect": ("attach",),
    "logs": ("journal",),
    "history": ("journal",),
    "stats": ("pulse",),
    "status": ("pulse",),
    "top": ("pulse",),
    "commit": ("snapshot",),
    "save": ("snapshot",),
    "clone": ("fork",),
    "images": ("image", "ls"),
    "build": ("image", "build"),
    "version": ("--version",),
}
"""The words that replace a verb of another tool. None destroys what the other verb would have kept."""
BELOW: Mapping[tuple[str, str], str] = {
    ("key", "ls"): "list",
    ("key", "delete"): "rm",
    ("artifact", "list"): "ls",
    ("artifact", "delete"): "rm",
    ("image", "list"): "ls",
}
"""The same for the verbs of groups, which are not all named alike."""
WITHOUT_QUESTIONS = ("-f", "--force")
"""The words that confirm an `rm` elsewhere; here it asks nothing."""
IN_SECONDS = ("--timeout", "--patience", "--busy-wait", "--lease-wait")
"""Options that take seconds in every verb but `ci`, which takes units; people give units to all."""
RENAMED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("export", "--refuse-secrets"): ("--secrets", "refuse"),
    ("push", "--refuse-secrets"): ("--secrets", "refuse"),
    ("wait", "--timeout"): ("--patience",),
}
"""The words that replace an old option of a verb."""
_WITH_VALUE = ("--as", "--reason")
"""Options before the verb that take the next word."""
_HELP = "-h"


def translated(given: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return a command line with such words replaced, and a note for each replaced verb and option."""
    words = ["--version" if word == "-V" or given == ["-v"] else word for word in given[:1]] + list(given[1:])
    if words == ["help", "all"]:
        return ["--help-all"], []
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if not words:
        return words, []
    at = verb_index(words)
    notes = []
    if (found := GUESSES.get(words[at])) is not None:
        notes = [] if found[0].startswith("-") else [f"`{words[at]}` is `holdfast {' '.join(found)}` here"]
        words[at : at + 1] = found
        at += len(found) - 1
    group, below = words[at], words[at + 1] if at + 1 < len(words) else ""
    if (same := BELOW.get((group, below))) is not None:
        words[at + 1] = same
    if group == "rm":
        words[at + 1 :] = [word for word in words[at + 1 :] if word not in WITHOUT_QUESTIONS]
    if group != "ci":
        _use_seconds(words, at + 1)
    # Behind the verb, or that of a group; later it may be a word of the command that is to be run.
    for place in range(min(at + 3, len(words))):
        if words[place] == _HELP and not any(word.startswith("-") for word in words[at + 1 : place]):
            words[place] = "--help"
    return _renamed(words, notes), notes


def _use_seconds(words: list[str], first: int) -> None:
    """Replace durations with a unit by seconds, in options before `--`."""
    if not any(word.startswith(IN_SECONDS) for word in words[first:]):
        return
    import re

    from holdfast.base import quantities

    unit = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?[smhd]")
    end = words.index("--") if "--" in words else len(words)
    for place in range(first, end):
        name, equals, value = words[place].partition("=")
        if name not in IN_SECONDS:
            continue
        if equals and unit.fullmatch(value):
            words[place] = f"{name}={quantities.parse_duration(value):g}"
        elif not equals and place + 1 < end and unit.fullmatch(words[place + 1]):
            words[place + 1] = f"{quantities.parse_duration(words[place + 1]):g}"


def _renamed(given: Sequence[str], notes: list[str]) -> list[str]:
    """Return a command line with old names replaced, and add a note for each that was."""
    at = verb_index(given)
    words = list(given[: at + 1])
    rest = list(given[at + 1 :])
    end = rest.index("--") if "--" in rest else len(rest)
    for word in rest[:end]:
        name, equals, value = word.partition("=")
        new = RENAMED.get((given[at], name))
        if new is None:
            words.append(word)
            continue
        words += [*new[:-1], new[-1] + equals + value]
        notes.append(f"{name} is now {' '.join(new)}; the next release drops the old name")
    return words + rest[end:]


def verb_index(given: Sequence[str]) -> int:
    """Return the index of the verb, or of the last word if there is none."""
    at = 0
    while at < len(given) - 1 and given[at].startswith("-"):
        at += 2 if given[at] in _WITH_VALUE else 1
    return min(at, len(given) - 1)
