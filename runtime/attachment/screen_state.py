"""The picture of a session's terminal at one offset of its output, made from the end of that output.

The supervisor adds what the end alone does not show: whether the second screen is shown and since when, where
everything was last erased, which modes are on.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.base.text import lines, plain
from holdfast.base.value_classes import dataclass
from holdfast.errors import ProtocolError
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.guest_rpc.results import Screen
from holdfast.runtime.terminal.emulator import MODES, SHIFT, Emulator, rows_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A screen of 40 x 120 that a program repainted a dozen times; pyte takes 1 s for each MiB.
TAIL = 64 << 10
# A full-screen program repaints only what changes, so more of its output counts.
PROGRAM_TAIL = 256 << 10
# A line is rarely longer; a tail begins after its first line end.
_LINE = 4 << 10


# The guest reports the size of a terminal, and memory use depends on it.
MAX_SIDE = 1000


@dataclass(frozen=True, slots=True)
class ScreenReport:
    """The kept output of a shell, `start` to `offset`, and the terminal state that its end does not show.

    `entered` and `left` are where the second screen was entered and left last, `erased` where everything
    was erased; `modes` are the active ones.
    """

    start: int
    offset: int
    rows: int
    cols: int
    entered: int | None
    left: int | None
    erased: int
    modes: tuple[int, ...]
    keypad: bool

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> ScreenReport:
        """Read the report from an answer.

        Raises:
            ProtocolError: it is not valid.
        """
        return wire_fields.value(
            cls,
            raw,
            rows=wire_fields.integer(raw, "rows", 1),
            cols=wire_fields.integer(raw, "cols", 1),
            entered=wire_fields.optional_integer(raw, "entered"),
            left=wire_fields.optional_integer(raw, "left"),
            modes=tuple(wire_fields.integers(raw, "modes")),
            keypad=wire_fields.flag(raw, "keypad"),
        )


@dataclass(frozen=True, slots=True)
class ScreenView:
    """The screen of a terminal after the output up to an offset."""

    terminal: Emulator
    offset: int


@dataclass(frozen=True, slots=True)
class OutputPart:
    """Output between two offsets; `cut` if relevant earlier output is left out."""

    start: int
    end: int
    cut: bool = False


def view(client: GuestClient, shell: str) -> ScreenView:
    """Return the terminal as it is now."""
    look = ScreenReport.of(client.request("look", shell=shell).head)
    first, second = parts(look.start, look.offset, look.entered, look.left, look.erased)
    terminal = Emulator(min(look.rows, MAX_SIDE), min(look.cols, MAX_SIDE))
    terminal.feed_bytes(_read(client, shell, first))
    if second:
        terminal.feed_bytes(b"\x1b[?1049h" if look.left is None else b"\x1b[m")
        terminal.feed_bytes(_read(client, shell, second))
    for mode in MODES:
        (terminal.mode.add if mode in look.modes else terminal.mode.discard)(mode << SHIFT)
    terminal.cursor.hidden = 25 not in look.modes
    terminal.keypad = look.keypad
    return ScreenView(terminal, look.offset)


def parts(
    start: int, end: int, entered: int | None, left: int | None, erased: int
) -> tuple[OutputPart, OutputPart | None]:
    """Return the output that makes the picture: the first screen's, followed by the second's or later
    output.

    `start` and `end` bound the kept output; the second screen was entered and left there, or is still shown.
    """
    if entered is not None and (left is None or left > max(start, end - TAIL)):
        first = _tail(start, max(start, entered), TAIL)
        if left is not None:
            return first, OutputPart(left, end)
        begin = max(start, entered, erased if erased > entered else 0)
        return first, OutputPart(max(begin, end - PROGRAM_TAIL), end)
    return _tail(start, end, TAIL), None


def _tail(start: int, end: int, size: int) -> OutputPart:
    return OutputPart(start, end) if end - size <= start else OutputPart(end - size, end, cut=True)


def _read(client: GuestClient, shell: str, part: OutputPart) -> bytes:
    if part.start >= part.end:
        return b""
    with client.open("read", shell=shell, offset=part.start, end=part.end, follow=False) as connection:
        data = b""
        for frame in connection.events(bounded=True):
            data += frame.payload
            if len(data) > part.end - part.start:
                raise ProtocolError("cannot understand the session: it shows more than requested")
    if part.cut:
        # The first line may begin within a sequence or a character.
        data = data[data.find(b"\n", 0, _LINE) + 1 :]
    return data


def render(output: bytes, rows: int, cols: int) -> Screen:
    """Return the screen of a terminal of this size after this output, which can begin anywhere."""
    terminal = Emulator(rows, cols)
    terminal.feed_bytes(output)
    return shown(terminal)


def shown(terminal: Emulator) -> Screen:
    """Return the screen of a terminal."""
    rows, cols = terminal.lines, terminal.columns
    text = "\n".join(lines(line).rstrip() for line in rows_of(terminal)).rstrip("\n")
    cursor = (min(terminal.cursor.y, rows - 1), min(terminal.cursor.x, cols - 1))
    return Screen(text=text, rows=rows, cols=cols, cursor=cursor, title=plain(terminal.title, 200))
