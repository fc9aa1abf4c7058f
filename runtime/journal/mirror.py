"""Takes over what sessions wrote into the folders they share with this host, before it can be lost.

A session appends to segment files in its folder, and they stay there when its container is gone. They are
read when somebody asks, and before the folder is removed. Nothing in them is trusted.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.runtime import run_dir
from holdfast.runtime.guest import layout
from holdfast.runtime.journal.entry import MAX_LINE, Told, told

if TYPE_CHECKING:
    from holdfast.runtime.home import Home
    from holdfast.runtime.store.store import Store

_SEGMENT = re.compile(r"(\d{16})\.jsonl")
MAX_SEGMENTS = 1000
MAX_SEGMENT = 8 << 20
# Of one session; a session that writes more loses its oldest.
MAX_KEPT = 256 << 20
# Of all sessions. Beyond that, those that were removed lose their journals, the oldest first.
MAX_ALL = 2 << 30


def mirror(store: Store, home: Home, session_id: str) -> int:
    """Keep what the session wrote since the last time, and return how many entries that were.

    Without a folder there is nothing to take over.
    """
    entries = store.entries
    try:
        with run_dir.opened(home.run_dir(session_id)) as folder, _opened(folder) as journal:
            last = entries.last(session_id)
            wanted = _wanted(journal, last)
            if last == 0 and wanted:
                # The copy begins with the first entry that is the session's own.
                entries.moved(session_id, wanted[0][0] - 1)
            count = sum(entries.take(session_id, _read(journal, name)) for _, name in wanted)
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
    """Segments that may hold entries behind `last`: number of the first entry, name."""
    found = [(int(match[1]), name) for name in os.listdir(journal) if (match := _SEGMENT.fullmatch(name))]
    found = sorted(found)[-MAX_SEGMENTS:]
    begun = [at for at, (first, _) in enumerate(found) if first <= last + 1]
    return found[begun[-1] if begun else 0 :]


def _read(journal: int, name: str) -> Iterator[Told]:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(name, flags, dir_fd=journal), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return
            left = MAX_SEGMENT
            while left > 0 and (line := file.readline(MAX_LINE)):
                left -= len(line)
                # The last line may be half written yet: it comes the next time.
                if line.endswith(b"\n") and (entry := told(line)) is not None:
                    yield entry
    except OSError:
        return


def forget_oldest(store: Store, limit: int = MAX_ALL) -> int:
    """Forget journals of removed sessions while all is too much, and return of how many."""
    forgotten = 0
    if store.entries.bytes() > limit:
        for row in store.sessions(removed=True):
            mine = [row.id, *(life["id"] for life in row.details.get("lives", ()))]
            if row.state == "removed" and store.entries.of(mine):
                for each in mine:
                    store.entries.forget(each)
                forgotten += 1
                if store.entries.bytes() <= limit:
                    break
    return forgotten


def _limit(store: Store, session_id: str) -> None:
    """Forget the older half of what a session wrote if it is too much; that is an entry, too."""
    entries = store.entries
    weight = entries.weight(session_id)
    if weight <= MAX_KEPT:
        return
    last = entries.last(session_id)
    mine = [row.seq for row in entries.of([session_id]) if not row.host]
    before = mine[len(mine) // 2] if mine else last
    dropped = entries.drop(session_id, before)
    body = {"why": "limit of the host", "to_seq": before - 1, "entries": dropped, "bytes": weight // 2}
    entries.note(session_id, "dropped", time.time(), actor="system", body=body)
