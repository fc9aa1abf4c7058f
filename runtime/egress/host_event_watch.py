"""The events that this host writes into a session's journal, read once for all followers.

To read the rules takes a process of the checkpointer and a question to the engine, and all who follow the
events of a session want to know what they say. So the followers of one process share what was read; and
while the session's network has sent nothing since then, nothing can have been refused. Linux counts that for
each network (proc_pid_net(5)): a session can only make its count grow. The journal is not read either while
nothing writes to the store.

It does not know where each follower is, nor the events that a session reports of itself.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from holdfast.runtime.egress import attempt_log

if TYPE_CHECKING:
    from holdfast.base.home import Home
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.journal_entries import EntryRow
    from holdfast.runtime.store.rows import SessionRow

KINDS = (
    attempt_log.KIND,
    "life_ending",
    "sleep_failed",
    "visited",
    "recovered",
    "frozen",
    "thawed",
    "durability_broken",
    "durable_again",
)
"""Kinds of events that this host writes."""
JOURNAL_SECONDS = 5.0
"""Seconds between two looks at the host's journal, if no refusal brings one."""
SECONDS = 2.0
"""Seconds between two readings of the rules of a session that sends, or two looks at what it has sent."""
LATEST = 300.0
"""The same while they cannot be read."""
LONGEST = 60.0
"""Seconds for which a count that does not grow is believed."""


class RefusalWatch:
    """The rules of one session, read for any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._container = ""
        self._pid = 0
        self._sent: tuple[int, int] | None = None
        self._next = self._until = 0.0
        self._pause = SECONDS
        self.readings = 0
        """How often the rules were read."""

    def is_due(self, seen: int) -> bool:
        """Return whether there can be refusals unknown to a caller that knows `seen` readings."""
        if self.readings != seen:
            return True
        now = time.monotonic()
        if now < self._next:
            return False
        if self._is_quiet(now):
            self._next = now + SECONDS
            return False
        return True

    def read(self, context: Context, row: SessionRow, *, fresh: bool = False) -> int:
        """Have the host journal what the rules recorded; return the number of readings.

        Records just read by another thread are not read again, unless they are wanted `fresh` and the
        session sent something in between. If they cannot be read, they are read less often.
        """
        with self._lock:
            now = time.monotonic()
            same = row.container_id == self._container
            if same and (self._is_quiet(now) or (now < self._next and not fresh)):
                return self.readings
            self._find(context, row)
            self._sent = sent(self._pid)  # before the rules are read: what is sent meanwhile counts
            was_read = attempt_log.glance(context, row)
            self._pause = SECONDS if was_read else min(self._pause * 2, LATEST)
            now = time.monotonic()
            self._next, self._until = now + self._pause, now + LONGEST if was_read else 0.0
            self.readings += 1
            return self.readings

    def _is_quiet(self, now: float) -> bool:
        """Return whether no packet was sent since the rules were read."""
        return now < self._until and self._sent is not None and sent(self._pid) == self._sent

    def _find(self, context: Context, row: SessionRow) -> None:
        """Find the session's first process on this machine; without it the rules are read each time."""
        self._container, self._pid = row.container_id or "", 0
        state = context.engine.inspect(self._container) if self._container else None
        if state is not None and state.running and _is_of(state.pid, self._container):
            self._pid = state.pid


class HostEventWatch:
    """The entries of this host in the journal of one session, for any number of threads."""

    def __init__(self, session_id: str) -> None:
        self.refusals = RefusalWatch()
        self._session = session_id
        self._lock = threading.Lock()
        self._entries: list[EntryRow] = []
        self._written: tuple[tuple[int, int, int], ...] | None = None
        self._next = self._until = 0.0
        self.newest = 0
        """The id of the newest entry that was found."""
        self.looks = 0
        """How often the journal was read."""

    def is_due(self, *, refusals: bool) -> bool:
        """Return whether a look can find more; `refusals`: also one at the rules."""
        return time.monotonic() >= self._next or (refusals and self.refusals.is_due(self.refusals.readings))

    def look(
        self, context: Context, row: SessionRow, *, refusals: bool, begins: bool = False, fresh: bool = False
    ) -> None:
        """Find new entries; `refusals`: once the rules' record is among them.

        Nothing is read again that another thread has just read, unless it is wanted `fresh`, or it is the
        journal and the caller `begins`.
        """
        before = self.refusals.readings
        if refusals:
            self.refusals.read(context, row, fresh=fresh)
        with self._lock:
            now = time.monotonic()
            if now < self._next and not (begins or fresh) and self.refusals.readings == before:
                return
            self._next = now + JOURNAL_SECONDS
            written = _written(context.home)
            if self._written is None or written != self._written or now >= self._until:
                self._read(context)
                self._written, self._until = written, now + LONGEST

    def after(self, seen: int) -> list[EntryRow]:
        """Return the entries with a greater id, in the order of the journal."""
        return [entry for entry in self._entries if entry.id > seen] if seen < self.newest else []

    def _read(self, context: Context) -> None:
        # 0.2 s that other commands do not need
        from holdfast.runtime.store.journal_entries import EntryFilter

        found = context.store.entries.stream([self._session], EntryFilter(kinds=KINDS, host=True))
        self._entries = list(found)
        self.newest = max((entry.id for entry in self._entries), default=self.newest)
        self.looks += 1


_watches: WeakValueDictionary[tuple[str, str], HostEventWatch] = WeakValueDictionary()
_watches_lock = threading.Lock()


def watch_of(context: Context, session_id: str) -> HostEventWatch:
    """Return the watch of a session, which this process keeps while it has a holder."""
    with _watches_lock:
        return _watches.setdefault((context.home.digest, session_id), HostEventWatch(session_id))


def _written(home: Home) -> tuple[tuple[int, int, int], ...] | None:
    """Return the state of the store's files, which changes with every write; None if unknown."""
    states = []
    for name in ("holdfast.db", "holdfast.db-wal"):
        with suppress(OSError):
            found = Path(home.below(name)).stat()
            states.append((found.st_ino, found.st_size, found.st_mtime_ns))
    return tuple(states) or None


def sent(pid: int) -> tuple[int, int] | None:
    """Return the numbers of IPv4 and IPv6 packets that a process's network was given to send.

    None if that is unknown: the process does not exist, or its kernel does not tell.
    """
    if not pid:
        return None
    with suppress(OSError, ValueError, LookupError):
        folder = Path("/proc", str(pid), "net")
        names, counts = (
            line.split() for line in (folder / "snmp").read_bytes().splitlines()[:2] if line[:3] == b"Ip:"
        )
        return int(counts[names.index(b"OutRequests")]), _sent_by_six(folder / "snmp6")
    return None


def _sent_by_six(file: Path) -> int:
    """Return the count of IPv6, which a kernel can lack."""
    try:
        lines = file.read_bytes().splitlines()
    except FileNotFoundError:
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith(b"Ip6OutRequests"))


def _is_of(pid: int, container: str) -> bool:
    """Return whether a process of this machine belongs to a container: the engine can be another
    machine's."""
    with suppress(OSError):
        return container in Path("/proc", str(pid), "cgroup").read_text()
    return False
