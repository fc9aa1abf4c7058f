"""Which files Git would ignore, by the texts of gitignore(5).  Pure.

Patterns come from a project and can be anything: matching takes time in proportion to pattern and name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

LONGEST = 1 << 20
"""Bytes of a file of patterns."""
MOST = 20_000
_LONGEST_PATTERN = 4096
_ANY = "**"
_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": " \\t", "digit": "0-9", "lower": "a-z", "upper": "A-Z",
    "space": "\\s", "xdigit": "0-9A-Fa-f", "punct": "!-/:-@\\[-`{-~", "cntrl": "\\x00-\\x1f", "print": " -~",
    "graph": "!-~",
}  # fmt: skip


@dataclass(frozen=True)
class Pattern:
    """One line: names that are ignored, or explicitly not (`again`).

    Attributes:
        parts: of the pattern, each for one part of a path.
        again: what an earlier line ignores is not ignored.
        folders: it is for folders only.
        anywhere: it is for a name in any folder below, else for a path from the folder of its file.
    """

    parts: tuple[str, ...]
    again: bool
    folders: bool
    anywhere: bool

    @cached_property
    def _forms(self) -> tuple[re.Pattern[str] | None, ...]:
        return tuple(None if part == _ANY else re.compile(_form(part), re.DOTALL) for part in self.parts)

    def matches(self, path: list[str], folder: bool) -> bool:
        """Check a path, from the folder of the pattern's file, in parts."""
        if self.folders and not folder:
            return False
        forms = self._forms
        if self.anywhere:
            assert forms[0] is not None
            return forms[0].fullmatch(path[-1]) is not None
        # Which numbers of parts of the path the pattern so far can stand for.
        reached = {0}
        for at, form in enumerate(forms):
            last = at == len(forms) - 1
            if form is None:
                first = min(reached)
                # At the end it is all that is inside, not the folder itself.
                reached = set(range(first + 1 if last else first, len(path) + 1))
            else:
                reached = {to + 1 for to in reached if to < len(path) and form.fullmatch(path[to])}
            if not reached:
                return False
        return len(path) in reached


@dataclass(slots=True)
class Ignored:
    """The patterns that hold in one folder: its own file's, and those of the folders above.

    Attributes:
        depth: of this folder, in parts.
        patterns: its own, with the lowest precedence first.
        above: those of the folder above.
    """

    depth: int = 0
    patterns: list[Pattern] = field(default_factory=list)
    above: Ignored | None = None

    def ignores(self, path: list[str], folder: bool) -> bool:
        """Check a name in this folder, whose path from the working tree has these parts."""
        # Git compares bytes: a letter of several is as many for it.
        path = [part.encode("utf-8", "surrogateescape").decode("latin-1") for part in path]
        holding: Ignored | None = self
        while holding is not None:
            for pattern in reversed(holding.patterns):
                if pattern.matches(path[holding.depth :], folder):
                    return not pattern.again
            holding = holding.above
        return False


def read(data: bytes) -> list[Pattern]:
    """Return the patterns of a file; empty if it is too long."""
    if len(data) > LONGEST:
        return []
    lines = data.removeprefix(b"\xef\xbb\xbf").decode("latin-1").split("\n")
    return [found for line in lines[:MOST] if (found := _pattern(line.removesuffix("\r")))]


def _pattern(line: str) -> Pattern | None:
    text = line.rstrip(" ")
    if text.endswith("\\") and text != line:
        text += " "  # the first of the blanks is quoted
    if not text or text.startswith("#") or len(text) > _LONGEST_PATTERN:
        return None
    again = text.startswith("!")
    text = text.removeprefix("!")
    folders = text.endswith("/")
    text = text.removesuffix("/")
    anywhere = "/" not in text
    parts = tuple(part for part in text.removeprefix("/").split("/"))
    if "" in parts:
        return None
    if anywhere and parts[0] == _ANY:
        parts = ("*",)
    try:
        made = Pattern(parts, again, folders, anywhere)
        assert made._forms
    except re.error:
        return None
    return made


def _form(part: str) -> str:
    """Return the regular expression of one part of a pattern.

    A text between two stars is looked for once, and never again from elsewhere, as fnmatch does it.
    """
    pieces: list[str] = [""]
    at = 0
    while at < len(part):
        letter = part[at]
        at += 1
        if letter == "*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append("")
        elif letter == "?":
            pieces[-1] += "."
        elif letter == "[":
            text, at = _class(part, at)
            pieces[-1] += text
        elif letter == "\\" and at < len(part):
            pieces[-1] += re.escape(part[at])
            at += 1
        else:
            pieces[-1] += re.escape(letter)
    first, *others = pieces
    if not others:
        return first
    *middle, last = others
    return first + "".join(f"(?>.*?{piece})" for piece in middle) + f".*{last}"


def _class(part: str, at: int) -> tuple[str, int]:
    """Return the regular expression of a class of letters, and where it ends."""
    begin, text = at, ""
    negated = part[at : at + 1] in ("!", "^")
    at += negated
    first, before = True, False
    while at < len(part) and (first or part[at] != "]"):
        first = False
        if part.startswith("[:", at) and (end := part.find(":]", at)) > 0 and part[at + 2 : end] in _CLASSES:
            text += _CLASSES[part[at + 2 : end]]
            at, before = end + 2, False
            continue
        # A range needs a letter before it, and after it; what another range ends with is not one.
        ranging = part[at] == "-" and before and at + 1 < len(part) and part[at + 1] != "]"
        text += "-" if ranging else ""
        at += ranging
        at += part[at] == "\\" and at + 1 < len(part)
        text += re.escape(part[at])
        at, before = at + 1, not ranging
    if at >= len(part):
        return re.escape("["), begin
    return f"[{'^' if negated else ''}{text}]", at + 1
