"""The session's journal: what was run and what happened, one JSON line each, written at once.

It is kept in the supervisor's own folder, so it is part of snapshots: a fork's journal begins with that of
its parent up to the capture. A copy of new entries goes to the folder shared with the host, where it outlives
the container. The modules that cause entries define their kinds; `docs/architecture.md` has the list.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from holdfast.runtime.guest.records.entrylog import EntryLog
from holdfast.runtime.guest.records.waiters import Waiters

CAPACITY = 64 << 20
COPY_CAPACITY = 16 << 20
"""Half of the space in the shared folder."""
MAX_LINE = 1 << 20
"""Bytes of an entry; a larger one loses its longest texts."""
PAGE = 500


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
        """Callback that gets the kind and fields of each entry at once."""
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
        """Continue the copy, including what was written meanwhile."""
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
    """Return the owner of the shared folder, who is to own its files: on the host, the controller's user."""
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
