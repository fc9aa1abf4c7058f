"""Reader of BuildKit's plain progress: lines for people, and the output to show when a build fails.

Pure: lines in, lines out. The engine's other builder is read by `buildlog`.
"""

from __future__ import annotations

import re
from collections import deque

from holdfast.base.text import plain
from holdfast.images.buildlog import TAIL_LINES, WIDEST

_STEP = re.compile(r"#\d+ \[(?!internal\])(?:(\S+) +)?(\d+/\d+)\] (.+)")
_OUTPUT = re.compile(r"#\d+ \d+\.\d+ (.*)")
_NAMED = re.compile(r"(?:ERROR: |error: )+(.*)")
# Versions before 23 write it without a word before it, after the parts of the Dockerfile that it is about.
_OTHER = re.compile(r"#\d+ .*|-+| > .*|\s*\d+ \|.*|\s*|\S+:\d+")
_ABOUT_ITSELF = re.compile(
    r"(?:failed to solve(?: with frontend \S+)?: |failed to create LLB definition: |rpc error: .*? desc = )+"
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class BuildKitLog:
    """Keeps the end of a build's output and its error, and picks the lines that show progress."""

    def __init__(self) -> None:
        self._named = ""
        self._last = ""
        self._shown: set[str] = set()
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    def feed(self, line: str) -> list[str]:
        """Return the progress lines for this line of the command."""
        text = _COLOUR.sub("", line)
        if found := _OUTPUT.fullmatch(text):
            if found[1].strip():
                self._tail.append(found[1].rstrip())
        elif found := _STEP.fullmatch(text):
            stage, number, what = found.groups()
            step = f"step {f'{stage} ' if stage else ''}{number}: {plain(' '.join(what.split()), WIDEST)}"
            if step not in self._shown:
                self._shown.add(step)
                return [step]
        elif found := _NAMED.fullmatch(text):
            self._named = found[1]
        elif not _OTHER.fullmatch(text):
            self._last = text
        return []

    @property
    def error(self) -> str:
        """Why the build failed, in the builder's words; empty if it gave no reason so far."""
        return _ABOUT_ITSELF.sub("", self._named or self._last).strip()

    def tail(self) -> str:
        """Return the last lines that the steps of the build wrote."""
        return "\n".join(self._tail)
