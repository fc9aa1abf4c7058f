"""What people type who know docker, tmux, gh or git, as the verbs that do it here.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.runtime.cli.deprecated import verb_index

VERBS: Mapping[str, tuple[str, ...]] = {
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
_HELP = "-h"


def translated(given: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return a command line with such words replaced, and a note for each verb that was."""
    words = ["--version" if word == "-V" else word for word in given[:1]] + list(given[1:])
    if words == ["help", "all"]:
        return ["--help-all"], []
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if not words:
        return words, []
    at = verb_index(words)
    notes = []
    if (found := VERBS.get(words[at])) is not None:
        notes = [] if found[0].startswith("-") else [f"`{words[at]}` is `holdfast {' '.join(found)}` here"]
        words[at : at + 1] = found
        at += len(found) - 1
    # Behind the verb, or that of a group; later it may be a word of the command that is to be run.
    for place in range(min(at + 3, len(words))):
        if words[place] == _HELP and not any(word.startswith("-") for word in words[at + 1 : place]):
            words[place] = "--help"
    return words, notes
