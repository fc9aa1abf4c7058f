"""The time index of a shell's recorded output: the times of its bytes, its sizes, the typed input.

The bytes themselves are in `streamlog.py`. Bytes that came within a few milliseconds share one moment, so a
fast program costs little; entries older than the kept output, or beyond the bound, are dropped by whole
segments.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.runtime.guest.files import removal
from holdfast.runtime.guest.records.timeline import Encoder, Malformed, Moment, MomentKind, Start, start_of
from holdfast.runtime.guest.shells.terminal import TerminalSize
from holdfast.runtime.guest.shells.typed import Typed

SEGMENT_SIZE = 256 << 10
CAPACITY = 16 << 20
"""About 4 bytes a moment and at most 125 moments a second: 9 hours of a program that never pauses."""
COALESCE = 0.008
FLUSH_SIZE = 4 << 10
FLUSH_SECONDS = 0.5


class ShellRecording:
    """Writes the index of one shell."""

    def __init__(
        self,
        folder: Path,
        size: TerminalSize,
        clock: Callable[[], float] = time.time,
        *,
        segment_size: int = SEGMENT_SIZE,
        capacity: int = CAPACITY,
        kept: int | None = None,
    ) -> None:
        """Start an empty index in a folder, removing what was in it.

        With `kept`, continue the index that another process left there, of output up to that offset.
        """
        self._folder = folder
        self._size = size
        self._clock = clock
        self._segment_size = segment_size
        self._capacity = capacity
        self._segments: list[tuple[int, int]] = []  # number, offset of its first moment
        self._number = 0
        self._written = 0
        self._encoder: Encoder | None = None
        self._buffer = bytearray()
        self._open: tuple[float, int] | None = None
        self._offset = 0
        self._covered = 0
        self._timer: asyncio.TimerHandle | None = None
        if kept is not None and self._resume(kept):
            return
        removal.discard(folder)
        folder.mkdir(parents=True, mode=0o700)

    def _resume(self, kept: int) -> bool:
        try:
            numbers = sorted(int(name) for name in os.listdir(self._folder) if name.isdecimal())  # noqa: PTH208
            self._segments = [(number, start_of(self.read(number)).offset) for number in numbers]
        except (OSError, Malformed):
            self._segments = []
            return False
        self._number = numbers[-1] if numbers else 0
        self._offset = self._covered = kept
        return True

    def output(self, end: int) -> None:
        """Note that output has come up to this offset."""
        now = self._clock()
        if self._open and not 0 <= now - self._open[0] < COALESCE:
            self._close()
        self._open = (self._open[0] if self._open else now, end)
        self._offset = end
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._flush_late)

    def resize(self, size: TerminalSize) -> None:
        """Note a new size of the terminal."""
        if size != self._size:
            self._add(Moment(MomentKind.RESIZE, self._clock(), self._offset, size.rows, size.columns))
            self._size = size

    def input(self, part: Typed) -> None:
        """Record typed input."""
        now = self._clock()
        if part.text is None:
            self._add(Moment(MomentKind.HIDDEN, now, self._offset, size=part.size))
        else:
            self._add(Moment(MomentKind.INPUT, now, self._offset, text=part.text))

    def trim(self, start: int) -> None:
        """Drop segments that only cover output before this offset, which is no longer kept."""
        while len(self._segments) > 1 and self._segments[1][1] <= start:
            self._drop_oldest()

    def segments(self, start: int, end: int) -> list[int]:
        """Return the numbers of the segments that cover the output from `start` to `end`."""
        self.flush()
        found = [number for number, first in self._segments if first <= end]
        late = [number for number, first in self._segments if first <= start]
        return [number for number in found if not late or number >= late[-1]]

    def read(self, number: int) -> bytes:
        """Return a segment; empty if it has been dropped in the meantime."""
        try:
            return self._path(number).read_bytes()
        except OSError:
            return b""

    def flush(self) -> None:
        """Write what is only in memory."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        self._close()
        self._write()

    def _flush_late(self) -> None:
        self._timer = None
        self.flush()

    def _close(self) -> None:
        if self._open:
            (at, end), self._open = self._open, None
            self._encode(Moment(MomentKind.OUTPUT, at, end))

    def _add(self, moment: Moment) -> None:
        self._close()
        self._encode(moment)

    def _encode(self, moment: Moment) -> None:
        if self._encoder is None or self._written + len(self._buffer) >= self._segment_size:
            self._begin(moment)
        assert self._encoder
        self._buffer += self._encoder.encode(moment)
        self._covered = moment.offset
        if len(self._buffer) >= FLUSH_SIZE:
            self._write()

    def _begin(self, moment: Moment) -> None:
        self._write()
        self._number += 1
        self._written = 0
        # This moment covers output from where the last one ended.
        start = Start(moment.at, self._covered, self._size.rows, self._size.columns)
        self._segments.append((self._number, start.offset))
        self._encoder = Encoder(start)
        self._buffer += self._encoder.head
        while len(self._segments) * self._segment_size > self._capacity and len(self._segments) > 1:
            self._drop_oldest()

    def _write(self) -> None:
        if not self._buffer:
            return
        data, self._buffer = bytes(self._buffer), bytearray()
        path = self._path(self._number)
        try:
            fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                whole = os.write(fd, data) == len(data)
            finally:
                os.close(fd)
        except OSError:
            whole = False
        self._written += len(data)
        if not whole:
            # The disk is full. A torn index would give wrong times: begin another one.
            self._encoder = None

    def _drop_oldest(self) -> None:
        number, _ = self._segments.pop(0)
        self._path(number).unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:08d}"
