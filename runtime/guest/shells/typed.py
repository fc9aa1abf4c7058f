"""The treatment of typed text: the part that can be recorded, and the part that a terminal would cut. Pure.

A terminal that echoes shows what is typed (termios ECHO with ICANON). While a line editor is at work both
are off, and the editor shows the text: among editors, only the shell's own, at its own prompt, is known.
Any other program that switched the echo off is possibly asking for a password, and so is one that reads raw
keys. Of input that cannot be judged only the number of bytes is kept.

A terminal that reads lines (termios ICANON) has room for 4096 bytes of one, its end included; of a longer
line it silently drops the rest (Linux, n_tty.c). A program that reads keys gets all there is.
"""

from __future__ import annotations

import re
from enum import StrEnum

from holdfast.base.value_classes import dataclass

_LINE_ENDS = (b"\r", b"\n")
LONGEST_TYPED = 4095
"""Bytes of a line without its end."""
_PASTE = b"\x1b[200~"


class Echo(StrEnum):
    """The source of the echo."""

    TERMINAL = "terminal"
    PROMPT = "prompt"
    NOBODY = "nobody"
    SECRET = "secret"  # noqa: S105
    """Lines are read and not shown: most likely a password."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A part of the input: its text, or only its number of bytes."""

    size: int
    text: bytes | None


def echo_of(*, canonical: bool, echo: bool, at_prompt: bool) -> Echo:
    """Return the component that echoes typed text, given the terminal's modes and whether the line editor is
    active."""
    if canonical:
        return Echo.TERMINAL if echo else Echo.SECRET
    return Echo.PROMPT if at_prompt else Echo.NOBODY


class Typing:
    """Judges the input typed into one shell."""

    def __init__(self) -> None:
        self._entered = -1

    def judge(self, data: bytes, before: Echo, after: Echo, prompts: int) -> list[Typed]:
        """Judge one write by the echo before and after it; `prompts` counts the shell's prompts.

        After the line that a prompt takes nothing is known until the next prompt: the command can be one
        that asks for a password, and the next line can be meant for it.
        """
        if not data:
            return []
        if before in (Echo.SECRET, Echo.NOBODY):
            return [Typed(len(data), None)]
        if before is Echo.TERMINAL:
            # Whatever switched the echo off meanwhile may have done so before it took these bytes.
            return [Typed(len(data), None if after is Echo.SECRET else data)]
        if prompts == self._entered:
            return [Typed(len(data), None)]
        ends = [at for at in map(data.find, _LINE_ENDS) if at >= 0]
        if not ends:
            return [Typed(len(data), data)]
        self._entered = prompts
        cut = min(ends) + 1
        rest = data[cut:]
        return [Typed(cut, data[:cut]), *([Typed(len(rest), None)] if rest else [])]


class Burst:
    """Consecutive input of one actor, gathered for one entry of the journal."""

    LIMIT = 1000
    """Bytes of text that are kept of one burst."""

    def __init__(self, actor: str) -> None:
        self.actor = actor
        self.size = 0
        self.hidden = False
        self._text = bytearray()

    @property
    def text(self) -> str | None:
        """The text, if all of it can be kept."""
        return None if self.hidden else self._text.decode("utf-8", "replace")

    def add(self, parts: list[Typed]) -> None:
        """Add a judged part."""
        for part in parts:
            self.size += part.size
            if part.text is None:
                self.hidden = True
            else:
                self._text += part.text[: self.LIMIT - len(self._text)]


class LineLimit:
    """Counts the bytes of the current line typed into one terminal."""

    def __init__(self) -> None:
        self._begun = 0

    def excess(self, data: bytes, ends: bytes, *, begun: bool = True) -> int:
        """Return the length of the line that the terminal would cut, or 0.

        `ends` are the characters that end or discard a line, empty if it reads keys. `begun`: earlier typed
        text belongs to the first of these lines.
        """
        if not ends:
            return 0
        lines = re.split(b"[" + re.escape(ends) + b"]", data)
        sizes = [len(line) for line in lines]
        sizes[0] += self._begun if begun else 0
        longest = max(sizes)
        return longest if longest > LONGEST_TYPED else 0

    def later_excess(self, data: bytes) -> int:
        """Return the same for the input after the line a prompt takes: its command can read lines."""
        if data.startswith(_PASTE):
            return 0
        first = re.search(rb"[\r\n]", data)
        return self.excess(data[first.end() :], b"\r\n", begun=False) if first else 0

    def typed(self, data: bytes, ends: bytes) -> None:
        """Count typed bytes."""
        rest = re.split(b"[" + re.escape(ends) + b"]", data)[1:] if ends else [b""]
        self._begun = len(rest[-1]) if rest else self._begun + len(data)


def line_refusal(size: int) -> str:
    """Return the message that refuses a line of that size."""
    return (
        f"cannot type it: one of its lines has {size} bytes, and a terminal in line mode "
        f"takes {LONGEST_TYPED} and drops the rest"
    )
