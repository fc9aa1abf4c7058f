"""Commands that hints suggest to a person or an agent.  Pure.

They may contain words from a guest or a snapshot. These are quoted, so that a shell takes each for one word
and a terminal shows it as it is.
"""

from __future__ import annotations

import shlex

from holdfast.base.text import fit

# Messages are cut at 500 characters, and a command without its end is a different command.
LONGEST = 300


def command(*words: str) -> str:
    """Return `holdfast` with these words, for bash; empty if it is too long to be shown whole."""
    text = " ".join(["holdfast", *(quoted(word) for word in words)])
    return text if len(text) <= LONGEST else ""


def quoted(word: str) -> str:
    """Quote one word for bash. Characters that a terminal obeys or does not show are escaped ($'…')."""
    if all(map(fit, word)):
        return shlex.quote(word)
    data = word.encode("utf-8", "surrogateescape")
    return "$'" + "".join(chr(b) if _is_plain(b) else f"\\x{b:02x}" for b in data) + "'"


def _is_plain(byte: int) -> bool:
    return 0x20 <= byte < 0x7F and byte not in b"'\\"
