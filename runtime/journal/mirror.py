"""Copies the journals that sessions write into their shared folders, before they can be lost.

A session appends to segment files in its folder, and they stay there after its container has ended. They
are read on request, and before the folder is removed. Nothing in them is trusted.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.base import run_dir
from holdfast.runtime.guest import layout
from holdfast.runtime.store.entry import CheckedLine, parse_line

if TYPE_CHECKING:
    from holdfast.base.home import Home
    from holdfast.runtime.store.store import Store

_SEGMENT = re.compile(r"(\d{16})\.jsonl")
MAX_SEGMENTS = 1000
MAX_SEGMENT = 8 << 20
# Entries copied at one time: the newest. Each costs about 20 microseconds and some hundred bytes.
MAX_TAKEN = 20_000
MAX_TAKEN_BYTES = 16 << 20
# Lines read for that: those that are not entries also cost time.
MAX_LINES = 2 * MAX_TAKEN
# Bytes kept of one session; one that writes more loses its oldest. A row counts its body and ROW bytes.
MAX_KEPT = 64 << 20
MAX_ENTRIES = 50_000
# Bytes kept of all sessions. Beyond that, removed sessions lose their journals, the oldest first.
MAX_ALL = 2 << 30


def mirror(store: Store, home: Home, session_id: str) -> int:
    """Copy the session's entries since the last time, and return their number.

    Without a folder there is nothing to copy.
    """
    entries = store.entries
    try:
        with run_dir.opened(home.run_dir(session_id)) as folder, _opened(folder) as journal:
            last = entries.last(session_id)
            wanted = _wanted(journal, last)
            if last == 0 and wanted:
                # The copy begins with the first entry of the session's own.
                entries.moved(session_id, wanted[0][0] - 1)
            new = _new(journal, [name for _, name in wanted], last)
            count = entries.take(session_id, new.entries)
            if count and new.missed:
                body = {"why": "too many at one time", "entries": new.missed}
                body |= {"bytes": new.missed_bytes} if new.missed_bytes else {}
                entries.note(session_id, "dropped", time.time(), actor="system", body=body, position=last)
            for _, name in wanted[:-1]:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=journal)
    except OSError:
        return 0
    if count:
        _limit(store, session_id)
    return count


@contextlib.contextmanager
def _opened(folder: int) -> Iterator[int]:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    journal = os.open(layout.JOURNAL_NAME, flags, dir_fd=folder)
    try:
        yield journal
    finally:
        os.close(journal)


def _wanted(journal: int, last: int) -> list[tuple[int, str]]:
    """List the segments that can hold entries after `last`: number of the first entry, name."""
    found = [(int(match[1]), name) for name in os.listdir(journal) if (match := _SEGMENT.fullmatch(name))]
    found = sorted(found)[-MAX_SEGMENTS:]
    begun = [at for at, (first, _) in enumerate(found) if first <= last + 1]
    return found[begun[-1] if begun else 0 :]


@dataclass(frozen=True, slots=True)
class NewEntries:
    """The entries a session wrote since the last time, oldest first, and the number of dropped older ones."""

    entries: list[CheckedLine]
    missed: int
    missed_bytes: int


def _new(journal: int, names: list[str], last: int) -> NewEntries:
    """Read segments backwards, up to an entry that is known or the limit for one time."""
    found: list[CheckedLine] = []
    lines = taken = missed = missed_bytes = 0
    known = False
    for name in reversed(names):
        if known:
            break
        data, beyond = _content(journal, name)
        missed_bytes += beyond
        # The last line may still be incomplete: it is read the next time.
        end = data.rfind(b"\n")
        while end >= 0 and lines < MAX_LINES and len(found) < MAX_TAKEN and taken < MAX_TAKEN_BYTES:
            begin = data.rfind(b"\n", 0, end)
            entry = parse_line(data[begin + 1 : end])
            lines, taken, end = lines + 1, taken + end - begin, begin
            if entry is None:
                continue
            if entry.seq <= last:
                known, end = True, -1
            else:
                found.append(entry)
        if end >= 0:
            missed += data.count(b"\n", 0, end + 1)
            missed_bytes += end + 1
    found.reverse()
    if found:
        # The numbers have no gaps, so they also reveal what the session itself has dropped since then.
        # The first time, the number it began with is not known.
        gap = max(0, found[0].seq - last - 1)
        missed = gap if last else min(missed, gap)
    return NewEntries(found, missed, missed_bytes)


def _content(journal: int, name: str) -> tuple[bytes, int]:
    """Return the bytes of a segment, and the number left out; empty if it is not a regular file."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(name, flags, dir_fd=journal), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return b"", 0
            data = file.read(MAX_SEGMENT)
            return data, max(0, status.st_size - len(data))
    except OSError:
        return b"", 0


def forget_oldest(store: Store, limit: int = MAX_ALL) -> int:
    """Delete journals of removed sessions while the total is too large; return their number."""
    forgotten = 0
    if store.entries.bytes() > limit:
        for row in store.sessions(removed=True):
            mine = [row.id, *(life["id"] for life in row.details.lives)]
            if row.state == "removed" and store.entries.of(mine):
                for each in mine:
                    store.entries.forget(each)
                forgotten += 1
                if store.entries.bytes() <= limit:
                    break
    return forgotten


def _limit(store: Store, session_id: str) -> None:
    """Delete the older half of a session's journal if it is too large, and record that as an entry."""
    entries = store.entries
    count, weight = entries.weight(session_id)
    if weight <= MAX_KEPT and count <= MAX_ENTRIES:
        return
    before = entries.number_of(session_id, count // 2)
    dropped = entries.drop(session_id, before)
    left_out = weight - entries.weight(session_id)[1]
    body = {"why": "limit of the host", "to_seq": before - 1, "entries": dropped, "bytes": left_out}
    entries.note(session_id, "dropped", time.time(), actor="system", body=body)
