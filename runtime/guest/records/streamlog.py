"""A bounded record of an endless stream of bytes, in segment files, read by absolute offset.

Memory use stays constant however much is written and however slowly it is read: readers read the files.
`SegmentIndex` is arithmetic: which bytes are in which file, and which files to drop.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest.files import removal
from holdfast.runtime.guest.records.waiters import Waiters

SEGMENT_SIZE = 4 << 20


@dataclass(frozen=True, slots=True)
class SegmentSpan:
    """Bytes that are contiguous in one segment."""

    segment: int
    position: int
    length: int


class SegmentIndex:
    """The kept part of a stream: [start, end), in segments of a fixed size."""

    def __init__(self, segment_size: int, capacity: int) -> None:
        if capacity < segment_size:
            raise ValueError(
                f"cannot keep a stream: capacity {capacity} is below the segment size {segment_size}"
            )
        self.segment_size = segment_size
        self.capacity = capacity
        self.start = 0
        self.end = 0

    def resume(self, start: int, end: int) -> None:
        """Continue a stream of which this part is kept."""
        self.start, self.end = start, end

    def append(self, length: int) -> list[SegmentSpan]:
        """Append `length` bytes and return where to write them."""
        spans = list(self._spans(self.end, length))
        self.end += length
        return spans

    def trim(self) -> list[int]:
        """Forget the oldest segments until the rest fits, and return them."""
        excess = self.end - self.start - self.capacity
        return self.forget(self.start + excess) if excess > 0 else []

    def forget(self, before: int) -> list[int]:
        """Forget whole segments that lie before that offset, or all if it is the end.

        A segment is named by the offset of its first byte.
        """
        dropped = []
        while self.start < before:
            segment = self.start - self.start % self.segment_size
            dropped.append(segment)
            self.start = min(segment + self.segment_size, self.end)
        return dropped

    def clamp(self, offset: int) -> int:
        """Return the kept offset nearest to the requested one; negative ones count from the end."""
        if offset < 0:
            offset += self.end
        return min(max(offset, self.start), self.end)

    def locate(self, offset: int, length: int) -> SegmentSpan | None:
        """Return where the bytes from `offset` on are, up to the end of their segment, or None at the end."""
        if offset < self.start:
            raise ValueError(f"cannot read at {offset}: the stream starts at {self.start}")
        length = min(length, self.end - offset)
        if length <= 0:
            return None
        return next(self._spans(offset, length))

    def _spans(self, offset: int, length: int) -> Iterator[SegmentSpan]:
        while length > 0:
            position = offset % self.segment_size
            size = min(length, self.segment_size - position)
            yield SegmentSpan(offset - position, position, size)
            offset += size
            length -= size


class StreamLog:
    """Appends to segment files, drops the oldest, and wakes readers that wait for more."""

    def __init__(
        self, folder: Path, capacity: int, segment_size: int = SEGMENT_SIZE, *, kept: int | None = None
    ) -> None:
        """Start an empty stream in a folder, removing what was in it.

        With `kept`, continue the stream that another process left there, of which the part from that offset
        on is valid.
        """
        self._folder = folder
        self._index = SegmentIndex(segment_size, capacity)
        self._open: tuple[int, int] | None = None
        self._waiters = Waiters()
        if kept is not None and self._resume(kept):
            return
        removal.discard(folder)
        folder.mkdir(parents=True, mode=0o700)

    @property
    def start(self) -> int:
        """The offset of the oldest byte that is kept."""
        return self._index.start

    @property
    def end(self) -> int:
        """The offset after the newest byte."""
        return self._index.end

    def clamp(self, offset: int) -> int:
        """Return the kept offset nearest to the requested one; negative ones count from the end."""
        return self._index.clamp(offset)

    def append(self, data: bytes) -> None:
        """Add data at the end. If the disk is full, the kept data are lost: a gap, never wrong bytes."""
        at, whole = 0, True
        for span in self._index.append(len(data)):
            whole = whole and self._write(span, data[at : at + span.length])
            at += span.length
        for segment in self._index.trim() if whole else self._index.forget(self._index.end):
            self._drop(segment)
        self.wake()

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset` on; empty at the end.

        Raises:
            ValueError: the stream is no longer kept there.
        """
        parts = []
        while length > 0 and (span := self._index.locate(offset, length)):
            parts.append(self._span(span.segment, span.position, span.length))
            offset += span.length
            length -= span.length
        return b"".join(parts)

    async def more(self) -> None:
        """Wait until something was appended or `wake` was called."""
        await self._waiters.wait()

    def rest(self) -> None:
        """Close the files until more is appended."""
        if self._open:
            os.close(self._open[1])
            self._open = None

    def remove(self) -> None:
        """Remove the kept data, and wake the readers."""
        self.rest()
        self._index.forget(self._index.end)
        removal.discard(self._folder)
        self.wake()

    def wake(self) -> None:
        """Let waiting readers look again."""
        self._waiters.wake()

    def _resume(self, kept: int) -> bool:
        size = self._index.segment_size
        try:
            names = sorted(int(name) for name in os.listdir(self._folder) if name.isdecimal())  # noqa: PTH208
            end = names[-1] + min(self._path(names[-1]).stat().st_size, size) if names else 0
        except OSError:
            return False
        start = end
        for number, name in enumerate(reversed(names)):
            if name != names[-1] - number * size:
                break  # what is before a missing segment is no longer of the stream
            start = name
        self._index.resume(min(max(start, kept), end), end)
        return True

    def _write(self, span: SegmentSpan, data: bytes) -> bool:
        try:
            return os.pwrite(self._segment(span.segment), data, span.position) == len(data)
        except OSError:
            return False

    def _drop(self, segment: int) -> None:
        if self._open and self._open[0] == segment:
            os.close(self._open[1])
            self._open = None
        self._path(segment).unlink(missing_ok=True)

    def _span(self, segment: int, position: int, length: int) -> bytes:
        try:
            fd = os.open(self._path(segment), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return bytes(length)
        try:
            data = os.pread(fd, length, position)
        finally:
            os.close(fd)
        return data.ljust(length, b"\0")

    def _segment(self, segment: int) -> int:
        if self._open and self._open[0] == segment:
            return self._open[1]
        self.rest()
        fd = os.open(self._path(segment), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._open = (segment, fd)
        return fd

    def _path(self, segment: int) -> Path:
        return self._folder / f"{segment:016d}"
