"""The session's journal: its commands and events, one JSON line each, written immediately.

Lines are numbered, in segment files each named by the number of its first line; the oldest are dropped at a
limit. A line is whole or absent: the part of a last one that a crash left is cut off when the log is opened
again. All of it is in the supervisor's own folder, so it is part of snapshots: a fork's journal begins with
its parent's up to the capture. A copy of new entries goes to the folder shared with the host, where it
outlives the container. The modules that cause entries define their kinds; `docs/architecture.md` lists
them.
"""

from __future__ import annotations

import json
import os
import time
from array import array
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from holdfast.base.value_classes import dataclass, field
from holdfast.runtime.guest.records.waiters import Waiters

CAPACITY = 64 << 20
COPY_CAPACITY = 16 << 20
"""Half of the space in the shared folder."""
MAX_LINE = 1 << 20
"""Bytes of an entry; a larger one loses its longest texts."""
PAGE = 500
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
    """Lines first..last in a folder. Opening it finds an earlier process's lines."""

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
        """Return whether the newest file is unchanged; otherwise a new log has replaced it."""
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


class Journal:
    """Entries numbered from 1 by `seq`, with the time `at` in seconds of the Unix clock."""

    def __init__(self, folder: Path, copy: Path | None = None, capacity: int = CAPACITY) -> None:
        self._log = EntryLog(folder, capacity)
        self._copy_folder = copy
        self._copy: EntryLog | None = None
        self._known: EntryLog | None = None
        """The copy before a pause."""
        self._copied = self._log.last
        self._last = self._log.last
        self._lost = 0
        self._waiters = Waiters()
        self.heard: Callable[[str, Mapping[str, Any]], None] | None = None
        """Callback that immediately gets the kind and fields of each entry."""
        if self._log.torn:
            self.append("dropped", why="torn", bytes=self._log.torn)
        self.resume()

    @property
    def last(self) -> int:
        """The `seq` of the newest entry; 0 if there is none."""
        return self._last

    @property
    def first(self) -> int:
        """The `seq` of the oldest entry that is kept."""
        return self._log.first

    def append(self, kind: str, /, **fields: Any) -> int:
        """Write an entry and return its `seq`. Fields that are None are left out.

        On a full disk the entry is lost; the next that can be written says how many were.
        """
        if self._lost and self._write({"kind": "dropped", "why": "disk full", "entries": self._lost}):
            self._lost = 0
        entry = {"kind": kind, **{key: value for key, value in fields.items() if value is not None}}
        if not self._write(entry):
            self._lost += 1
        elif dropped := self._log.trim():
            first, last = dropped[0].first, dropped[-1].first + dropped[-1].count - 1
            size = sum(segment.size for segment in dropped)
            self._write({"kind": "dropped", "why": "limit", "from_seq": first, "to_seq": last, "bytes": size})
        if self.heard:
            self.heard(kind, entry)
        self._waiters.wake()
        return self._last

    def entries(
        self, after: int = 0, limit: int = PAGE, kinds: Collection[str] | None = None
    ) -> list[dict[str, Any]]:
        """Return up to `limit` entries after number `after`, oldest first; only of some kinds, if given."""
        found: list[dict[str, Any]] = []
        while len(found) < limit and (lines := self._log.read(after, PAGE)):
            for line in lines:
                entry = json.loads(line)
                after = entry["seq"]
                if kinds is None or entry["kind"] in kinds:
                    found.append(entry)
                    if len(found) == limit:
                        break
        return found

    async def more(self) -> None:
        """Wait until something is appended."""
        await self._waiters.wait()

    def pause(self) -> None:
        """Close the copy in the shared folder, which will be a different one in a copy of this process."""
        if self._copy:
            self._copy.close()
            self._known, self._copy = self._copy, None

    def resume(self) -> None:
        """Continue the copy, including entries written in the meantime."""
        if self._copy_folder is None:
            return
        try:
            if self._known is None or not self._known.there():
                self._known = EntryLog(
                    self._copy_folder, COPY_CAPACITY, owner=_owner(self._copy_folder.parent)
                )
        except OSError:
            return
        self._copy, self._known = self._known, None
        self._copied = self._copy.last or self._copied
        while lines := self._log.read(self._copied, PAGE):
            for line in lines:
                self._copied += 1
                self._copy.append(self._copied, line)

    def _write(self, entry: dict[str, Any]) -> bool:
        seq = self._last + 1
        line = _line({"seq": seq, "at": round(time.time(), 6), **entry})
        if not self._log.append(seq, line):
            return False
        self._last = seq
        if self._copy:
            self._copy.append(seq, line)
            self._copy.trim()
            self._copied = seq
        return True


def _owner(folder: Path) -> tuple[int, int] | None:
    """Return the owner of the shared folder, for its files: on the host, the controller's user."""
    if os.getuid() != 0:
        return None
    status = folder.stat()
    return status.st_uid, status.st_gid


def _line(entry: dict[str, Any]) -> bytes:
    line = json.dumps(entry, ensure_ascii=False, separators=(",", ":"), default=str)
    data = line.encode("utf-8", "replace") + b"\n"
    if len(data) <= MAX_LINE:
        return data
    short = {
        key: value[:1000] if isinstance(value, str) else value
        for key, value in entry.items()
        if not isinstance(value, list | dict)
    }
    return _line({**short, "cut": len(data)})
