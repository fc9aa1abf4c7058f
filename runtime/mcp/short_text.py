"""Text cut to what an agent's context should hold, by lines that it can ask for.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.base.text import colored

MOST_CHARACTERS = 6000
"""What one answer shows of an output: about 1500 tokens."""
MOST_LINES = 150
LONGEST_LINE = 1000
_HEAD = 0.3
"""The share of the beginning; an end says more, such as the summary of a build."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A text as shown. `omitted` are the first and the last line that are not in it, counted from 1.

    Both are 0 if something was left out and its numbers are unknown.
    """

    text: str
    omitted: tuple[int, int] | None = None


def clean(data: bytes | str) -> str:
    """Return text without escape sequences, with only the last version of lines that were redrawn."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    kept = colored(text, keep=False)
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in kept.split("\n"))


def shorten(text: str, most: int = MOST_CHARACTERS, *, before: int | None = 0) -> Shown:
    """Return the beginning and the end of a text, in whole lines; all of it if it is short enough.

    `before` lines come before its first one, and count; None if their number is unknown.
    """
    lines = lines_of(text)
    if sum(map(_cost, lines)) <= most and len(lines) <= MOST_LINES:
        return Shown("\n".join(lines))
    return both_ends(lines, lines, len(lines), most, before=before)


def both_ends(
    first_lines: Sequence[str],
    last_lines: Sequence[str],
    count: int,
    most: int = MOST_CHARACTERS,
    *,
    before: int | None = 0,
) -> Shown:
    """Return the beginning and the end of a text of `count` lines, of which the first and last are given."""
    head = _fitting(first_lines, int(most * _HEAD), int(MOST_LINES * _HEAD))
    rest = last_lines[-min(len(last_lines), count - head) :] if count > head else []
    tail = _fitting(rest[::-1], int(most * (1 - _HEAD)), MOST_LINES - head)
    first, last = head + 1, count - tail
    if first > last:
        return Shown("\n".join([*first_lines[:head], *rest]))
    if before is None:
        omitted = f"… {last - first + 1} lines are not shown …"
    else:
        omitted = f"… lines {before + first} to {before + last} of {before + count} are not shown …"
    shown = "\n".join([*first_lines[:head], omitted, *rest[len(rest) - tail :]])
    return Shown(shown, (0, 0) if before is None else (before + first, before + last))


def part(text: str, first: int, most: int = MOST_CHARACTERS) -> Shown:
    """Return the lines from number `first` on, as many as fit, and at least one; negative counts from the
    end."""
    lines = lines_of(text)
    begin = max(0, len(lines) + first if first < 0 else first - 1)
    return from_line(lines[begin:], begin, len(lines), most)


def from_line(lines: Sequence[str], begin: int, count: int, most: int = MOST_CHARACTERS) -> Shown:
    """Return as many lines as fit, and at least one, of a text of `count`: those after the first `begin`."""
    shown = lines[: max(1, _fitting(lines, most, 2 * MOST_LINES))]
    last = begin + len(shown)
    if not shown:
        return Shown(f"… there are {count} lines …")
    if last >= count:
        return Shown("\n".join(shown))
    return Shown("\n".join([*shown, f"… {count - last} more lines …"]), (last + 1, count))


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, long ones cut, without blank ones at its end."""
    found = text.split("\n")
    while found and not found[-1].strip():
        found.pop()
    return [cut(line) for line in found]


def cut(line: str) -> str:
    """Return a line, or the beginning of a long one."""
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
