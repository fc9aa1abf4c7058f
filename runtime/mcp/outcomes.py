"""Outputs and outcomes as an agent sees them, cut to fit its context. Pure.

An output of any length is taken as it comes, and the part that an answer can show is kept: both ends, or
the lines from one on. Lines are counted from the beginning of the output, in the same way by `run` and by
`read`.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.base.text import colored, plain
from holdfast.runtime.guest_rpc.results import ExecResult
from holdfast.runtime.terminal.scroll import DRAWN, plain_text
from holdfast.runtime.terminal.uncook import Tail

if TYPE_CHECKING:
    from holdfast.runtime.guest.pulse.state import State

MOST_CHARACTERS = 6000
"""The part of an output that one answer shows: about 1500 tokens."""
MOST_LINES = 150
LONGEST_LINE = 1000
_HEAD = 0.3
"""The share of the beginning; an end says more, such as the summary of a build."""


@dataclass(frozen=True, slots=True)
class ShownText:
    """A shown text. `omitted` are the first and the last missing line, counted from 1.

    Both are 0 if something was left out and its numbers are unknown.
    """

    text: str
    omitted: tuple[int, int] | None = None


def clean(data: bytes | str) -> str:
    """Return text without escape sequences, with only the last version of lines that were redrawn."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    kept = colored(text, keep=False)
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in kept.split("\n"))


def shorten(text: str, most: int = MOST_CHARACTERS, *, before: int | None = 0) -> ShownText:
    """Return the beginning and the end of a text, in whole lines; all of it if it is short enough.

    `before` lines come before its first one, and count; None if their number is unknown.
    """
    lines = lines_of(text)
    if sum(map(_cost, lines)) <= most and len(lines) <= MOST_LINES:
        return ShownText("\n".join(lines))
    return both_ends(lines, lines, len(lines), most, before=before)


def both_ends(
    first_lines: Sequence[str],
    last_lines: Sequence[str],
    count: int,
    most: int = MOST_CHARACTERS,
    *,
    before: int | None = 0,
) -> ShownText:
    """Return the beginning and the end of a text of `count` lines, of which the first and last are given."""
    head = _fitting(first_lines, int(most * _HEAD), int(MOST_LINES * _HEAD))
    rest = last_lines[-min(len(last_lines), count - head) :] if count > head else []
    tail = _fitting(rest[::-1], int(most * (1 - _HEAD)), MOST_LINES - head)
    first, last = head + 1, count - tail
    if first > last:
        return ShownText("\n".join([*first_lines[:head], *rest]))
    if before is None:
        omitted = f"… {last - first + 1} lines are not shown …"
    else:
        omitted = f"… lines {before + first} to {before + last} of {before + count} are not shown …"
    shown = "\n".join([*first_lines[:head], omitted, *rest[len(rest) - tail :]])
    return ShownText(shown, (0, 0) if before is None else (before + first, before + last))


def part(text: str, first: int, most: int = MOST_CHARACTERS) -> ShownText:
    """Return the lines from number `first` on, as many as fit, and at least one; negative counts from the
    end."""
    lines = lines_of(text)
    begin = max(0, len(lines) + first if first < 0 else first - 1)
    return from_line(lines[begin:], begin, len(lines), most)


def from_line(lines: Sequence[str], begin: int, count: int, most: int = MOST_CHARACTERS) -> ShownText:
    """Return as many lines as fit, and at least one, of a text of `count`: those after the first `begin`."""
    shown = lines[: max(1, _fitting(lines, most, 2 * MOST_LINES))]
    last = begin + len(shown)
    if not shown:
        return ShownText(f"… there are {count} lines …")
    if last >= count:
        return ShownText("\n".join(shown))
    return ShownText("\n".join([*shown, f"… {count - last} more lines …"]), (last + 1, count))


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
    """Return the number of first lines that fit."""
    for at, line in enumerate(lines[:count]):
        most -= _cost(line)
        if most < 0:
            return at
    return min(count, len(lines))


WHOLE = DRAWN
"""Bytes of an output that is drawn as a terminal shows it; of a longer one each line is cleaned individually.
"""
PIECE = 256 << 10
"""Bytes that are kept of a longer one: of its beginning, of its end, and from the wanted line on."""


class KeptOutput:
    """The kept part of one output.

    Args:
        wanted: the line from which on lines are asked for, counted from 1.
        before: the lines of the output that were passed on earlier, and are not fed again; None if unknown.
    """

    def __init__(self, *, wanted: int = 1, before: int | None = 0) -> None:
        self.wanted = wanted
        self._before = before
        self._begin = bytearray()
        self._around = bytearray()
        self._end = Tail(PIECE)
        self._size = 0
        self._newlines = 0

    @property
    def lines(self) -> int | None:
        """The whole lines of the output up to now, if their number is known."""
        return None if self._before is None else self._before + self._newlines

    def feed(self, data: bytes) -> None:
        """Process more of the output."""
        self._size += len(data)
        if (room := WHOLE - len(self._begin)) > 0:
            self._begin += data[:room]
        if (room := PIECE - len(self._around)) > 0:
            at = 0 if self._around else _after(data, self.wanted - 1 - self._newlines)
            if at is not None:
                self._around += data[at : at + room]
        self._end.feed(data)
        self._newlines += data.count(b"\n")

    def both_ends(self, rows: int, cols: int) -> ShownText:
        """Return the beginning and the end of the fed output, as shown by a terminal of that size."""
        if self._size <= WHOLE:
            return shorten(plain_text(bytes(self._begin), rows, cols), before=self._before)
        last, count = self._last_lines()
        return both_ends(_first_lines(bytes(self._begin)), last, count, before=self._before)

    def from_line(self, first: int, rows: int, cols: int) -> ShownText | None:
        """Return lines from number `first` on, which is `wanted`, or counts from the end if it is negative.

        None: a line that far from the end is not kept; `line_number` is what is to be `wanted`.
        """
        if self._size <= WHOLE:
            return part(plain_text(bytes(self._begin), rows, cols), first)
        last, count = self._last_lines()
        if first < 0:
            return None if -first > len(last) else from_line(last[first:], count + first, count)
        around = bytes(self._around)
        if self.wanted > count:
            return from_line([], count, count)
        whole = _first_lines(around) if len(around) == PIECE else lines_of(clean(around))
        return from_line(whole, self.wanted - 1, count)

    def line_number(self, first: int) -> int:
        """Return the number from the beginning of a line that is counted from the end."""
        return max(1, self._last_lines()[1] + first + 1)

    def _last_lines(self) -> tuple[list[str], int]:
        """Return the last whole lines of a long output, and how many lines it has."""
        text = clean(self._end.value())
        last = lines_of(text.partition("\n")[2])
        whole = text.count("\n") + 1 - text.endswith("\n")
        blank = max(0, whole - 1 - len(last)) if "\n" in text else 0
        return last, self._newlines + (not text.endswith("\n")) - blank


def _first_lines(data: bytes) -> list[str]:
    """Return the first lines of data that was cut at its end, where a line can be cut."""
    text = clean(data)
    lines = [cut(line) for line in text.split("\n", 2 * MOST_LINES)[: 2 * MOST_LINES]]
    if text.count("\n") < len(lines):
        lines[-1] = f"{lines[-1].partition('… (')[0]}… (this line is longer)"
    return lines


def _after(data: bytes, newlines: int) -> int | None:
    """Return the beginning of the line preceded by this number of newlines; None if it is elsewhere."""
    at = 0
    for _ in range(newlines):
        at = data.find(b"\n", at) + 1
        if at == 0:
            return None
    return at if newlines >= 0 else None


def command(
    result: ExecResult, news: Iterable[str] = (), *, waited: float = 0.0, output: KeptOutput | None = None
) -> str:
    """Return a command's result: news, output, facts. `waited` is in seconds.

    `output` is the output passed on as it came, of which the result has only the end.
    """
    shown = shorten(result.plain) if output is None else output.both_ends(result.rows, result.cols)
    lines = [*news, *(f"since your last command: {event.text}" for event in result.news)]
    lines += [lost(result.lost + (result.dropped if output is None else 0)), shown.text, *_remarks(result)]
    return joined([*lines, facts(_facts(result, shown, waited))])


def joined(parts: Iterable[str]) -> str:
    """Return the non-empty parts, each on lines of its own."""
    return "\n".join(part for part in parts if part.strip())


def facts(parts: Iterable[str]) -> str:
    """Return facts as one line; empty if there are none."""
    known = " · ".join(part for part in parts if part)
    return f"[{known}]" if known else ""


def lost(count: int) -> str:
    """Return the remark that `count` bytes at the beginning are missing; empty for none."""
    return f"({count} earlier bytes are no longer kept)" if count else ""


def rest(shown: ShownText, id_: str) -> str:
    """Return how to read the omitted part of an output; empty if there is none."""
    if shown.omitted is None:
        return ""
    first = shown.omitted[0]
    return f"read(id={id_!r}, line={first}) shows the rest" if first else f"read(id={id_!r}) shows all of it"


def still_runs(waited: float, id_: str) -> tuple[str, ...]:
    """Return the facts of unfinished work after `waited` seconds."""
    return f"still runs after {waited:.0f} s", f"id {id_}", "wait(id=…) follows it"


def doing(state: State) -> str:
    """Return a program's activity, without the time."""
    return state.phrase(state.since).removesuffix(", 0 s so far")


def waits(state: State) -> str:
    """Return the input a program waits for, and how to answer it."""
    return f"{doing(state)}; answer(text=…)"


def _facts(result: ExecResult, shown: ShownText, waited: float) -> list[str]:
    id_ = result.command_id
    if result.waiting is not None:
        parts = [waits(result.waiting), f"id {id_}"]
    elif result.running:
        parts = [*still_runs(waited, id_)]
    else:
        parts = [_end(result), f"{result.duration:.1f} s", plain(result.cwd or "", 200)]
    return [*parts, rest(shown, id_)]


def _end(result: ExecResult) -> str:
    if result.timed_out:
        return "interrupted at its time limit"
    if result.exit_code is None:
        return "the shell ended with it" if result.shell_exited else "it ended; its exit code is unknown"
    return f"exit {result.exit_code}{_signal(result.signal)}"


def _signal(number: int | None) -> str:
    if not number:
        return ""
    try:
        return f", {signal.Signals(number).name}"
    except ValueError:
        return f", signal {number}"


def _remarks(result: ExecResult) -> Iterable[str]:
    if result.message:
        yield f"({result.message})"
    elif result.shell_exited:
        yield "(the shell ended; the next command gets a new one, in its first directory)"
