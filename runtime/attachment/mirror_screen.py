"""A session's terminal as a person sees it in their own.

Where both have the same size, output goes through as far as it is safe. Where the sizes differ, a program's
positions would be wrong: the output goes to an emulated terminal, and as much of its picture as fits is
painted. A status line takes the last row, so the session's terminal has one row less; a program that scrolls
a region of its own, which ends above, is painted too.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from holdfast.base.text import plain
from holdfast.runtime.attachment import status_line
from holdfast.runtime.attachment.screen_state import ScreenView
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.terminal.allowed_controls import Use, is_question
from holdfast.runtime.terminal.emulator import Emulator
from holdfast.runtime.terminal.redraw import redraw
from holdfast.runtime.terminal.row_bound import RowBound
from holdfast.runtime.terminal.safe_output import SafeOutput
from holdfast.runtime.terminal.vt_parser import Function

NOTICE_SECONDS = 2.5
# Seconds between two paintings of a picture; no one would see more.
PAINT_SECONDS = 0.04
# The emulator takes a second for this many bytes: beyond that the newest picture is requested, and the output
# in between is left out.
LAG = 1 << 20
# Queries of a program that are kept until they are answered. More at once are a flood.
MOST_ASKED = 8
# Seconds until a picture is painted again because the terminal cannot be written to as it is.
RENEW_SECONDS = 1.0


class MirrorScreen:
    """Shows one session on one terminal. `next` is the offset of the output it shows next.

    `asked` are unanswered queries to the terminal; the caller answers and clears them. With `unfiltered`,
    output is written unchanged, the terminal answers itself, and `status` is ignored.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        look: Callable[[], ScreenView],
        *,
        encoding: str = "utf-8",
        unfiltered: bool = False,
        status: bool = False,
    ) -> None:
        self._write = write
        self._encoding = encoding
        self._unfiltered = unfiltered
        self._status: str | None = "" if status and not unfiltered else None
        self._message: tuple[str, float] | None = None
        self._bound: RowBound | None = None
        self._safe = self._filter()
        self.asked: list[Function] = []
        self._look = look
        self._size = (24, 80)
        self._view: ScreenView | None = None
        self._fed = 0
        self._paint_at: float | None = None
        self._renew_at: float | None = None
        self.next: int | None = None

    def room(self, size: tuple[int, int] | None = None) -> tuple[int, int]:
        """Return the rows and columns that a terminal of this size has for the session."""
        rows, cols = size or self._size
        return (rows - 1 if self._status is not None and rows >= status_line.LEAST_ROWS else rows), cols

    @property
    def has_status(self) -> bool:
        """True while the status line is switched on."""
        return self._status is not None

    def switch_status(self) -> bool:
        """Switch the status line on or off; return whether that is possible. Paint the picture again then."""
        self._status = None if self._unfiltered or self._status is not None else ""
        return not self._unfiltered

    def show_status(self, text: str) -> None:
        """Show this text in the status line."""
        if self._status not in (None, text):
            self._status = text
            if self._message is None:
                self._paint_status()

    def close(self) -> None:
        """Remove the status line, so that it does not stay behind."""
        if self._lined:
            self._draw(b"\x1b[r\x1b[%d;1H\x1b[0m\x1b[2K" % self._size[0])

    def renew(self, size: tuple[int, int] | None = None) -> None:
        """Paint the newest picture, on a terminal of this size."""
        self._size = size or self._size
        found = self._look()
        self.next = max(found.offset, self.next or 0)
        same = (found.terminal.lines, found.terminal.columns) == self.room() and (
            not self._lined or _whole(found.terminal)
        )
        self._bound = RowBound(self.room()[0]) if same and self._lined else None
        if self._bound is not None:
            self._bound.saved = bool(found.terminal.savepoints)
        self._safe = self._filter()
        self._safe.feed(found.terminal.unfinished)
        self._fed = 0
        self._renew_at = None
        self._view = None if same else found
        self._paint(found)

    def output(self, frame: Frame) -> None:
        """Show output that has not been shown yet."""
        start, following = wire_fields.integer(frame, "offset"), wire_fields.integer(frame, "next")
        data = frame.payload
        if self.next is not None and start < self.next:
            data = data[self.next - start :]
        self.next = max(following, self.next or 0)
        if self._view is None:
            self._write(data if self._unfiltered else self._safe.feed(data))
            self._look_after_row()
            return
        self._safe.feed(data)  # for its queries: the emulator ignores them
        self._fed += len(data)
        if self._fed > LAG:
            self.renew()
        elif data:
            terminal, now = self._view.terminal, time.monotonic()
            terminal.feed_bytes(data)
            self._paint_at = self._paint_at or now + PAINT_SECONDS
            if self._lined and (terminal.lines, terminal.columns) == self.room() and _whole(terminal):
                self._renew_at = self._renew_at or now + RENEW_SECONDS

    def gap(self, frame: Frame) -> None:
        """Handle lost output: only the newest picture is right."""
        self.next = wire_fields.integer(frame, "offset") + wire_fields.integer(frame, "size")
        self.renew()

    def notice(self, text: str) -> None:
        """Show a line briefly, with a bell: in place of the status, else at the top, away from the input."""
        if self._lined:
            self._message = text, time.monotonic() + NOTICE_SECONDS
            self._draw(b"\a")
            self._paint_status()
            return
        line = plain(text, max(1, self._size[1] - 2)).encode()
        self._draw(b"\a\x1b7\x1b[?6l\x1b[1;1H\x1b[0;7m %s \x1b[0m\x1b8" % line)
        self._renew_at = time.monotonic() + NOTICE_SECONDS

    def patience(self) -> float | None:
        """Return the seconds until `tick` has something to do."""
        message = self._message[1] if self._message else None
        due = [at for at in (self._paint_at, self._renew_at, message) if at is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def tick(self) -> None:
        """Do the work that is due."""
        now = time.monotonic()
        if self._message and now >= self._message[1]:
            self._message = None
            self._paint_status()
        if self._renew_at is not None and now >= self._renew_at:
            self.renew()
        if self._paint_at is not None and now >= self._paint_at and self._view is not None:
            self._paint(self._view)

    def _filter(self) -> SafeOutput:
        return SafeOutput(Use.ATTACH, self._encoding, self._ask, self._bound)

    def _ask(self, function: Function) -> None:
        if is_question(function) and len(self.asked) < MOST_ASKED:
            self.asked.append(function)

    def _paint(self, found: ScreenView) -> None:
        self._paint_at = None
        rows, cols = self.room()
        self._draw(redraw(found.terminal, rows=rows, cols=cols, below=self._row() if self._lined else None))

    @property
    def _lined(self) -> bool:
        """True if there is a status line now: it is switched on, and the terminal is high enough."""
        return self.room() != self._size

    def _row(self) -> bytes:
        """Return the bytes that paint the status line."""
        text = self._message[0] if self._message else self._status or ""
        row = status_line.filled(plain(text, 1000), self._size[1]).encode()
        return b"\x1b[?6l\x0f\x1b(B\x1b[%d;1H\x1b[0m\x1b[2K\x1b[7m%s\x1b[0m" % (self._size[0], row)

    def _paint_status(self) -> None:
        if not self._lined:
            return
        if self._view is not None:
            self._paint(self._view)
        elif (
            self._bound is not None and self._bound.saved
        ):  # to save the place again would lose the program's
            self._renew_at = self._renew_at or time.monotonic() + RENEW_SECONDS
        else:
            self._draw(b"\x1b7%s\x1b8" % self._row())

    def _look_after_row(self) -> None:
        """Repair the status line after output that was passed on."""
        if self._bound is None:
            return
        if self._bound.split:
            self.renew()
        elif self._bound.erased:
            self._bound.erased = False
            self._paint_status()

    def _draw(self, data: bytes) -> None:
        """Write locally produced UTF-8 in the terminal's encoding."""
        utf8 = self._encoding.lower() in ("utf-8", "utf8")
        self._write(data if utf8 else data.decode().encode(self._encoding, "replace"))


def _whole(terminal: Emulator) -> bool:
    """Return whether the scroll region reaches the last row."""
    return terminal.margins is None or terminal.margins.bottom >= terminal.lines - 1
