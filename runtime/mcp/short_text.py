"""Text cut to what an agent's context should hold, by lines that it can ask for.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOST_CHARACTERS = 6000
"""What one answer shows of an output: about 1500 tokens."""
MOST_LINES = 150
LONGEST_LINE = 1000
_HEAD = 0.3
"""The share of the beginning; an end says more, such as the summary of a build."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A text as shown. `omitted` are the first and the last line that are not in it, counted from 1."""

    text: str
    omitted: tuple[int, int] | None = None


def shorten(text: str, most: int = MOST_CHARACTERS) -> Shown:
    """Return the beginning and the end of a text, in whole lines; all of it if it is short enough."""
    lines = _lines(text)
    if sum(map(_cost, lines)) <= most and len(lines) <= MOST_LINES:
        return Shown("\n".join(lines))
    head = _fitting(lines, int(most * _HEAD), int(MOST_LINES * _HEAD))
    tail = _fitting(lines[: head - 1 if head else None : -1], int(most * (1 - _HEAD)), MOST_LINES - head)
    first, last = head + 1, len(lines) - tail
    if first > last:
        return Shown("\n".join(lines))
    omitted = f"… lines {first} to {last} of {len(lines)} are not shown …"
    return Shown("\n".join([*lines[:head], omitted, *lines[last:]]), (first, last))


def part(text: str, first: int, most: int = MOST_CHARACTERS) -> Shown:
    """Return the lines from number `first` on, as many as fit, and at least one; negative counts from the
    end."""
    lines = _lines(text)
    begin = max(0, len(lines) + first if first < 0 else first - 1)
    count = max(1, _fitting(lines[begin:], most, 2 * MOST_LINES))
    shown, last = lines[begin : begin + count], min(begin + count, len(lines))
    if not shown:
        return Shown(f"… there are {len(lines)} lines …")
    if last == len(lines):
        return Shown("\n".join(shown))
    return Shown("\n".join([*shown, f"… {len(lines) - last} more lines …"]), (last + 1, len(lines)))


def _lines(text: str) -> list[str]:
    found = text.split("\n")
    while found and not found[-1].strip():
        found.pop()
    return [_cut(line) for line in found]


def _cut(line: str) -> str:
    over = len(line) - LONGEST_LINE
    return line if over <= 0 else f"{line[:LONGEST_LINE]}… ({over} more characters)"


def _cost(line: str) -> int:
    return len(line) + 1


def _fitting(lines: Sequence[str], most: int, count: int) -> int:
    """Return how many of the first lines fit."""
    for at, line in enumerate(lines[:count]):
        most -= _cost(line)
        if most < 0:
            return at
    return min(count, len(lines))
