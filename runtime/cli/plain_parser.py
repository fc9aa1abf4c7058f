"""Reads the words of a plain command line as Typer would. Pure.

Whatever is unusual is left to Typer, mistakes and requests for help included: combined letters, values that
look like options, numbers in another form than 1 or 1.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.runtime.cli.plain_parameters import FLAG, NUMBER, TEXTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DIGITS = 15
"""More of them are left to Typer: a float would not hold them."""


def parsed(
    arguments: Sequence[str], options: Mapping[str, tuple[str, str]], words: Sequence[str]
) -> dict[str, Any] | None:
    """Return the parameters that are given; None if Typer has to read the words."""
    found: dict[str, Any] = {}
    positional: list[str] = []
    waiting = iter(words)
    for word in waiting:
        if word == "--":
            positional += waiting
        elif len(word) < 2 or not word.startswith("-"):
            positional.append(word)
        elif not _take(found, options, word, waiting):
            return None
    return found if _place(found, arguments, positional) else None


def _take(found: dict[str, Any], options: Mapping[str, tuple[str, str]], word: str, rest: Any) -> bool:
    """Add an option and its value; False if it is not a plain one."""
    name, equals, value = word.partition("=")
    if name not in options or (equals and not name.startswith("--")):
        return False
    parameter, kind = options[name]
    if kind == FLAG:
        found[parameter] = True
        return not equals
    if not equals:
        value = next(rest, "-")
        if value.startswith("-"):
            return False
    if kind == TEXTS:
        found.setdefault(parameter, []).append(value)
    elif kind == NUMBER:
        if not _is_number(value):
            return False
        found[parameter] = float(value)
    else:
        found[parameter] = value
    return True


def _is_number(text: str) -> bool:
    whole, point, part = text.partition(".")
    pieces = (whole, part) if point else (whole,)
    return text.isascii() and all(piece.isdigit() and len(piece) <= _DIGITS for piece in pieces)


def _place(found: dict[str, Any], arguments: Sequence[str], words: list[str]) -> bool:
    """Add the words as arguments; False if there are too few or too many."""
    for argument in arguments:
        name, several = argument.rstrip("?*+"), argument[-1] in "*+"
        if several:
            if words or argument[-1] == "*":
                found[name], words = words, []
                continue
            return False
        if words:
            found[name], words = words[0], words[1:]
        elif argument[-1] != "?":
            return False
    return not words
