"""Readers of the output of an image build: progress for people, and the end of it after a failure.

The engine's own builder has a stream of events, BuildKit the plain progress of its command. Pure: events or
lines in, lines out.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from holdfast.base.text import plain

# Only what takes time: the other instructions finish at once.
_STEP = re.compile(r"Step (\d+/\d+) : (RUN .*)")
_ANY_STEP = re.compile(r"Step (\d+/\d+) : (.*)")
# The builder's lines about itself, and the color it gives to what a step writes to stderr.
_BUILDER = re.compile(r"Step \d+/\d+ :| ?--->|Removing intermediate container")
_MADE = re.compile(r" ---> ([0-9a-f]{12,64})")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_APT_PLAN = re.compile(r"\d+ upgraded, (\d+) newly installed")
# Seconds between two lines about the same step; packages are set up at a few dozen a second.
PACKAGES_PER_LINE = 40
TAIL_LINES = 20
WIDEST = 70
"""Characters of a step that are shown; the rest becomes an ellipsis."""


def _numbers(text: str) -> tuple[int, int]:
    number, _, total = text.partition("/")
    return int(number), int(total)


class BuildLog:
    """Keeps the end of a build's output and its error, and picks the lines that show progress.

    `made` are the ids of the images from its steps so far, including those of earlier attempts; `image` is
    the whole id of the last one when the build has succeeded. `steps` are the number of the present step
    and of all steps; empty before the first. With `every_step` all steps are shown, not only the slow ones
    of our builds.
    """

    def __init__(self, *, every_step: bool = False) -> None:
        self._step = _ANY_STEP if every_step else _STEP
        self.image = ""
        self.error = ""
        self.made: list[str] = []
        self.steps: tuple[()] | tuple[int, int] = ()
        self._begins = False
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._planned = 0
        self._done = 0

    def feed(self, event: dict[str, Any]) -> list[str]:
        """Return the progress lines for this event of the engine."""
        if "error" in event:
            self.error = str(event["error"]).strip()
            return []
        match event.get("aux"):
            case {"ID": str(identity)}:
                self.image = identity
        shown = []
        for line in _COLOUR.sub("", str(event.get("stream", ""))).splitlines():
            if line.strip() and not _BUILDER.match(line):
                self._tail.append(line.rstrip())
            self._remember(line)
            shown += self._progress(line)
        return shown

    def tail(self) -> str:
        """Return the last lines that the steps of the build wrote."""
        return "\n".join(self._tail)

    def _remember(self, line: str) -> None:
        if step := _ANY_STEP.match(line):
            self._begins = " : FROM " in line
            self.steps = _numbers(step[1])
        elif (made := _MADE.fullmatch(line)) and not self._begins:
            self.made.append(made[1])

    def _progress(self, line: str) -> list[str]:
        if step := self._step.match(line):
            return [f"step {step[1]}: {plain(' '.join(step[2].split()), WIDEST)}"]
        if plan := _APT_PLAN.match(line):
            self._planned, self._done = int(plan[1]), 0
            return [f"installing {self._planned} packages"] if self._planned > 1 else []
        if line.startswith("Setting up "):
            self._done += 1
            if self._done % PACKAGES_PER_LINE == 0:
                return [f"{self._done} of {self._planned} packages set up"]
        return []


_PLAIN_STEP = re.compile(r"#\d+ \[(?!internal\])(?:(\S+) +)?(\d+/\d+)\] (.+)")
_OUTPUT = re.compile(r"#\d+ \d+\.\d+ (.*)")
_NAMED = re.compile(r"(?:ERROR: |error: )+(.*)")
# Versions before 23 write it without a word before it, after the parts of the Dockerfile that it is about.
_OTHER = re.compile(r"#\d+ .*|-+| > .*|\s*\d+ \|.*|\s*|\S+:\d+")
_ABOUT_ITSELF = re.compile(
    r"(?:failed to solve(?: with frontend \S+)?: |failed to create LLB definition: |rpc error: .*? desc = )+"
)
_CONTROLS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class BuildKitLog:
    """Keeps the end of a build's output and its error, and picks the lines that show progress."""

    def __init__(self) -> None:
        self.steps: tuple[()] | tuple[int, int] = ()
        self._named = ""
        self._last = ""
        self._shown: set[str] = set()
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    def feed(self, line: str) -> list[str]:
        """Return the progress lines for this line of the command."""
        text = _CONTROLS.sub("", line)
        if found := _OUTPUT.fullmatch(text):
            if found[1].strip():
                self._tail.append(found[1].rstrip())
        elif found := _PLAIN_STEP.fullmatch(text):
            stage, number, what = found.groups()
            self.steps = _numbers(number)
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
        """The reason for the failure, in the builder's words; empty if it has not given one."""
        return _ABOUT_ITSELF.sub("", self._named or self._last).strip()

    def tail(self) -> str:
        """Return the last lines that the steps of the build wrote."""
        return "\n".join(self._tail)
