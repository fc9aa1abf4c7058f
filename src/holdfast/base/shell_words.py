"""Quotes the words of a program so that bash, zsh and fish all read them unchanged. Pure.

In single quotes fish gives a backslash a meaning, and others do not; outside of quotes two of them are one
everywhere.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable


def join(words: Iterable[str]) -> str:
    """Return a text that a shell splits into these words."""
    return " ".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    if word[:1] in ("=", "%"):  # zsh replaces the one by the path of a program, fish `%self` by its pid
        return f"'{word[0]}'{_quoted(word[1:]) if len(word) > 1 else ''}"
    if "\\" not in word:
        return shlex.quote(word)
    return "\\\\".join(shlex.quote(part) if part else "" for part in word.split("\\"))
