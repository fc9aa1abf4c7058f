"""A session's terminal as a person sees it in their own.

Where both have the same size, output goes through as far as it is safe. Where the sizes differ, a program's
positions would be wrong: the output goes to an emulated terminal, and as much of its picture as fits is
painted.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from holdfast.base.text import plain
from holdfast.runtime.attachment.screen_state import ScreenView
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.terminal.allowed_controls import Use, is_question
from holdfast.runtime.terminal.redraw import redraw
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


class MirrorScreen:
    """Shows one session on one terminal. `next` is the offset of the output it shows next.

    `asked` are queries to the terminal that have not been answered; the caller answers and clears them.
    With `unfiltered`, output is written unchanged, and the terminal answers itself.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        look: Callable[[], ScreenView],
        *,
        encoding: str = "utf-8",
        unfiltered: bool = False,
    ) -> None:
        self._write = write
        self._encoding = encoding
        self._unfiltered = unfiltered
        self._safe = self._filter()
        self.asked: list[Function] = []
        self._look = look
        self._size = (24, 80)
        self._view: ScreenView | None = None
        self._fed = 0
        self._paint_at: float | None = None
        self._renew_at: float | None = None
        self.next: int | None = None

    def renew(self, size: tuple[int, int] | None = None) -> None:
        """Paint the newest picture, on a terminal of this size."""
        self._size = size or self._size
        found = self._look()
        self.next = max(found.offset, self.next or 0)
        self._safe = self._filter()
        self._safe.feed(found.terminal.unfinished)
        self._fed = 0
        self._renew_at = None
        same = (found.terminal.lines, found.terminal.columns) == self._size
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
            return
        self._safe.feed(data)  # for its queries: the emulator ignores them
        self._fed += len(data)
        if self._fed > LAG:
            self.renew()
        elif data:
            self._view.terminal.feed_bytes(data)
            self._paint_at = self._paint_at or time.monotonic() + PAINT_SECONDS

    def gap(self, frame: Frame) -> None:
        """Handle lost output: only the newest picture is right."""
        self.next = wire_fields.integer(frame, "offset") + wire_fields.integer(frame, "size")
        self.renew()

    def notice(self, text: str) -> None:
        """Show a line at the top briefly, with a bell: people look and type at the bottom."""
        line = plain(text, max(1, self._size[1] - 2)).encode()
        self._draw(b"\a\x1b7\x1b[?6l\x1b[1;1H\x1b[0;7m %s \x1b[0m\x1b8" % line)
        self._renew_at = time.monotonic() + NOTICE_SECONDS

    def patience(self) -> float | None:
        """Return the seconds until `tick` has something to do."""
        due = [at for at in (self._paint_at, self._renew_at) if at is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def tick(self) -> None:
        """Do the work that is due."""
        now = time.monotonic()
        if self._renew_at is not None and now >= self._renew_at:
            self.renew()
        if self._paint_at is not None and now >= self._paint_at and self._view is not None:
            self._paint(self._view)

    def _filter(self) -> SafeOutput:
        return SafeOutput(Use.ATTACH, self._encoding, self._ask)

    def _ask(self, function: Function) -> None:
        if is_question(function) and len(self.asked) < MOST_ASKED:
            self.asked.append(function)

    def _paint(self, found: ScreenView) -> None:
        self._paint_at = None
        rows, cols = self._size
        self._draw(redraw(found.terminal, rows=rows, cols=cols))

    def _draw(self, data: bytes) -> None:
        """Write locally produced UTF-8 in the terminal's encoding."""
        utf8 = self._encoding.lower() in ("utf-8", "utf8")
        self._write(data if utf8 else data.decode().encode(self._encoding, "replace"))
