"""The part of typed text that may be recorded: only what the terminal shows anyway. Pure.

A terminal that echoes shows what is typed (termios ECHO with ICANON). While a line editor is at work both are
off, and the editor shows the text: among editors, only the shell's own, at its own prompt, is known. Any
other program that switched the echo off may be asking for a password, and so may one that reads raw keys. Of
input that cannot be judged only the number of bytes is kept.
"""

from __future__ import annotations

from enum import StrEnum

from holdfast.base.value_classes import dataclass

_LINE_ENDS = (b"\r", b"\n")


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
    """Return what shows typed text, given the terminal's modes and whether the shell's line editor has it."""
    if canonical:
        return Echo.TERMINAL if echo else Echo.SECRET
    return Echo.PROMPT if at_prompt else Echo.NOBODY


class Typing:
    """Judges what is typed into one shell."""

    def __init__(self) -> None:
        self._entered = -1

    def judge(self, data: bytes, before: Echo, after: Echo, prompts: int) -> list[Typed]:
        """Judge one write by the echo before and after it; `prompts` counts the shell's prompts.

        After the line that a prompt takes nothing is known until the next prompt: the command may be one that
        asks for a password, and what follows may be meant for it.
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
        """The text, if all of it may be kept."""
        return None if self.hidden else self._text.decode("utf-8", "replace")

    def add(self, parts: list[Typed]) -> None:
        """Add a judged part."""
        for part in parts:
            self.size += part.size
            if part.text is None:
                self.hidden = True
            else:
                self._text += part.text[: self.LIMIT - len(self._text)]
