"""Commands that a person or an agent is told to run.  Pure.

What a guest or a snapshot says may be part of them: it is quoted, so that a shell takes it for that one word,
and it cannot be shown as something else than it is.
"""

from __future__ import annotations

import shlex

from holdfast.base.text import fit

# What is shown is cut at 500 characters, and a command without its end is another command.
LONGEST = 300


def command(*words: str) -> str:
    """`holdfast` with these words, for bash; empty if it is too long to be shown whole."""
    text = " ".join(["holdfast", *(quoted(word) for word in words)])
    return text if len(text) <= LONGEST else ""


def quoted(word: str) -> str:
    """One word for bash. Characters that a terminal obeys or does not show are written as escapes ($'…')."""
    if all(map(fit, word)):
        return shlex.quote(word)
    data = word.encode("utf-8", "surrogateescape")
    return "$'" + "".join(chr(b) if _is_plain(b) else f"\\x{b:02x}" for b in data) + "'"


def _is_plain(byte: int) -> bool:
    return 0x20 <= byte < 0x7F and byte not in b"'\\"
