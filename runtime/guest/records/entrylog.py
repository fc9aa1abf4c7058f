"""Numbered lines in segment files: appended at once, found by number, the oldest dropped at a limit.

A segment is named by the number of its first line. A line is one JSON object with its number as `seq`. It is
whole or absent: the part of a last line that a crash left is cut off when the log is opened again. Knows
nothing of the contents of lines.
"""

from __future__ import annotations

import json
import os
from array import array
from pathlib import Path

from holdfast.base.value_classes import dataclass, field

SEGMENT_SIZE = 1 << 20
STRIDE = 64
"""One line in this many has its place kept in memory."""
SUFFIX = ".jsonl"


@dataclass(slots=True)
class LogSegment:
    """One file: the number of its first line, its line count, its size, and where every 64th line begins."""

    first: int
    count: int = 0
    size: int = 0
    places: array[int] = field(default_factory=lambda: array("L"))

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.first:016d}{SUFFIX}"

    def grow(self, length: int) -> None:
        """Count one more line."""
        if self.count % STRIDE == 0:
            self.places.append(self.size)
        self.count += 1
        self.size += length


class EntryLog:
    """Lines first..last in a folder. Opening it finds those of an earlier process."""

    def __init__(
        self,
        folder: Path,
        capacity: int,
        segment_size: int = SEGMENT_SIZE,
        owner: tuple[int, int] | None = None,
    ) -> None:
        """Open the log; `owner` (uid, gid) gets the files, if they are not to be ours."""
        self._folder = folder
        self._owner = owner
        self._capacity = capacity
        self._segment_size = segment_size
        self._fd = -1
        self._segments: list[LogSegment] = []
        self.torn = 0
        """Bytes that were cut off at the end when the log was opened."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if owner:
            os.chown(folder, *owner)
        self._load()

    @property
    def first(self) -> int:
        """The number of the oldest line that is kept; above `last` if there is none."""
        return self._segments[0].first if self._segments else self.last + 1

    @property
    def last(self) -> int:
        """The number of the newest line, 0 if there was none."""
        if not self._segments:
            return 0
        newest = self._segments[-1]
        return newest.first + newest.count - 1

    def append(self, seq: int, line: bytes) -> bool:
        """Add a line, which ends with a newline. Return False, with nothing changed, if the disk is full."""
        newest = self._segments[-1] if self._segments else None
        if newest is None or newest.size >= self._segment_size or seq != self.last + 1:
            self.close()
            newest = LogSegment(seq)
        try:
            if self._fd < 0:
                path = self._folder / newest.name
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
                self._fd = os.open(path, flags, 0o600)
                if self._owner:
                    os.fchown(self._fd, *self._owner)
            if os.write(self._fd, line) != len(line):
                os.ftruncate(self._fd, newest.size)
                return False
        except OSError:
            return False
        if newest.count == 0:
            self._segments.append(newest)
        newest.grow(len(line))
        return True

    def trim(self) -> list[LogSegment]:
        """Drop the oldest segments until the rest fits, and return them."""
        dropped = []
        total = sum(segment.size for segment in self._segments)
        while total > self._capacity and len(self._segments) > 1:
            oldest = self._segments.pop(0)
            total -= oldest.size
            (self._folder / oldest.name).unlink(missing_ok=True)
            dropped.append(oldest)
        return dropped

    def read(self, after: int, limit: int) -> list[bytes]:
        """Return up to `limit` of the lines after number `after` that are kept, oldest first.

        They are of one segment: fewer than `limit` does not mean that there are no more.
        """
        for segment in self._segments:
            skip = max(0, after + 1 - segment.first)
            if skip < segment.count:
                return self._lines(segment, skip, limit)
        return []

    def there(self) -> bool:
        """Return whether the newest file is as it was left: otherwise this would be another log."""
        if not self._segments:
            return False
        try:
            return (self._folder / self._segments[-1].name).stat().st_size == self._segments[-1].size
        except OSError:
            return False

    def close(self) -> None:
        """Close the file. The next line opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _lines(self, segment: LogSegment, skip: int, limit: int) -> list[bytes]:
        try:
            with (self._folder / segment.name).open("rb") as file:
                file.seek(segment.places[skip // STRIDE])
                for _ in range(skip % STRIDE):
                    file.readline()
                count = min(limit, segment.count - skip)
                return [line for _ in range(count) if (line := file.readline()).endswith(b"\n")]
        except OSError:
            return []

    def _load(self) -> None:
        stems = [path.stem for path in self._folder.glob(f"*{SUFFIX}")]
        for first in sorted(int(stem) for stem in stems if stem.isdecimal()):
            if first > self.last:
                self._load_segment(LogSegment(first))

    def _load_segment(self, segment: LogSegment) -> None:
        """Read the whole lines of a file, and cut the file at the first that is not whole."""
        path = self._folder / segment.name
        try:
            with path.open("r+b") as file:
                for line in file:
                    if number(line) != segment.first + segment.count:
                        break
                    segment.grow(len(line))
                self.torn += os.fstat(file.fileno()).st_size - segment.size
                file.truncate(segment.size)
        except OSError:
            return
        if segment.count:
            self._segments.append(segment)
        else:
            path.unlink(missing_ok=True)


def number(line: bytes) -> int | None:
    """Return the number of a whole line, or None."""
    if not line.endswith(b"\n"):
        return None
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    seq = entry.get("seq") if isinstance(entry, dict) else None
    return seq if isinstance(seq, int) and not isinstance(seq, bool) else None
