"""The layout of an endless stream's bytes in segment files, and which segments to drop.

Arithmetic only; `streamlog.py` owns the files.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.base.value_classes import dataclass


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
        """Take `length` bytes at the end and return where to write them."""
        spans = list(self._spans(self.end, length))
        self.end += length
        return spans

    def trim(self) -> list[int]:
        """Forget the oldest segments until the rest fits, and return them."""
        excess = self.end - self.start - self.capacity
        return self.forget(self.start + excess) if excess > 0 else []

    def forget(self, before: int) -> list[int]:
        """Forget whole segments until nothing before that offset is kept, or all if it is the end.

        A segment is named by the offset of its first byte.
        """
        dropped = []
        while self.start < before:
            segment = self.start - self.start % self.segment_size
            dropped.append(segment)
            self.start = min(segment + self.segment_size, self.end)
        return dropped

    def clamp(self, offset: int) -> int:
        """Return the kept offset nearest to the one asked for; negative ones count from the end."""
        if offset < 0:
            offset += self.end
        return min(max(offset, self.start), self.end)

    def locate(self, offset: int, length: int) -> SegmentSpan | None:
        """Return where the bytes from `offset` on are, up to the end of their segment, or None at the end."""
        if offset < self.start:
            raise ValueError(f"cannot read at {offset}: the stream is kept from {self.start} on")
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
