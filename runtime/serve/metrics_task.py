"""The task of a server that samples the running sessions of its home.

It reads the files of their control groups on this machine, and asks neither them nor, but for their first
process and their disk, the engine: a session that sleeps or hangs costs nothing and is not woken.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from holdfast.base.text import plain
from holdfast.errors import HoldfastError
from holdfast.runtime.guest.pulse import cgroup_limits
from holdfast.runtime.lifetimes.session_ends import ACTOR
from holdfast.runtime.operations.context import Context
from holdfast.runtime.pulse.metrics_history import FINE_SECONDS, MetricsHistory, Sample
from holdfast.runtime.serve.api_server import working
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.store.rows import SessionRow

DISK_SECONDS = 600.0
"""Seconds between two counts of a session's disk: the engine reads all its files for one."""
DISK_SPENT = 0.5
"""Processor seconds without which a session is not counted again."""
COUNTS_AT_ONCE = 2
"""Counts of a disk in one round; samples of a session begin with the first."""
FIND_SECONDS = 60.0
"""Seconds between two questions for the first process of a container that this machine does not have."""
MOST_OF_FILE = 1 << 14
logger = logging.getLogger("holdfast.serve")


@dataclass(slots=True)
class _Known:
    """A session's container: how it is read, and its disk."""

    container: str
    read: Callable[[str], bytes | None] | None = None
    again: float = 0.0
    disk: int = 0
    counted: float | None = None
    spent: float = 0.0


class MetricsTask:
    """Samples all running sessions, in a thread."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        self._known: dict[str, _Known] = {}

    def running(self) -> AbstractAsyncContextManager[None]:
        """Take samples while the block runs."""
        return working(self._live())

    async def _live(self) -> None:
        while True:
            try:
                rows = await self._callers.session_rows(ACTOR)
                running = [row for row in rows if row.state == "running" and row.container_id]
                if running or self._known:
                    await self._callers.brief.run(partial(self._round, running))
            except (HoldfastError, OSError) as error:
                logger.error("cannot sample sessions: %s", plain(str(error), 400))
            await asyncio.sleep(FINE_SECONDS - time.time() % FINE_SECONDS)

    def _round(self, rows: list[SessionRow]) -> None:
        context = self._callers.controller(ACTOR).context
        self._known = {row.id: self._known_of(row) for row in rows}
        total = shutil.disk_usage(context.home.root).total
        counts = COUNTS_AT_ONCE
        for row in rows:
            known = self._known[row.id]
            sample = self._sample(context, row, known, total)
            if sample is None:
                continue
            if counts and self._is_due(known, sample):
                counts -= 1
                known.disk = context.engine.files.written(known.container)
                known.counted, known.spent = time.monotonic(), sample.spent
            if known.counted is not None:
                MetricsHistory(context.home.metrics / row.id).add(replace(sample, disk_used=known.disk))

    def _is_due(self, known: _Known, sample: Sample) -> bool:
        """Return whether the disk of a session is to be counted."""
        if known.counted is None:
            return True
        ago = time.monotonic() - known.counted
        return ago > DISK_SECONDS and sample.spent - known.spent >= DISK_SPENT

    def _known_of(self, row: SessionRow) -> _Known:
        found = self._known.get(row.id)
        container = row.container_id or ""
        return found if found is not None and found.container == container else _Known(container)

    def _sample(self, context: Context, row: SessionRow, known: _Known, disk: int) -> Sample | None:
        if known.read is None and time.monotonic() >= known.again:
            known.again = time.monotonic() + FIND_SECONDS
            state = context.engine.inspect(known.container)
            if state is not None and state.running:
                known.read = reader(state.pid, known.container)
        if known.read is None:
            return None
        found = cgroup_limits.look(read=known.read)
        memory, spent = found["memory"], found["cpu"]["seconds"]
        if spent is None or memory["used"] is None:
            known.read = None  # its container is gone, or another process has its number
            return None
        return Sample(
            time.time(),
            spent,
            float(row.options.get("cpus") or os.cpu_count() or 1),
            memory["used"],
            memory["limit"] or _memory(),
            memory["cache"] or 0,
            known.disk,
            int(row.options.get("disk") or 0) or disk,
        )


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def reader(pid: int, container: str) -> Callable[[str], bytes | None] | None:
    """Return a reader of files of a container's control group, by the names that they have in the container.

    None if this machine does not have that process: the engine is elsewhere.
    """
    with suppress(OSError):
        groups = groups_of(Path("/proc", str(pid), "cgroup").read_text().splitlines(), container)
        if groups:
            return lambda path: _read(path, groups)
    return None


def groups_of(lines: Iterable[str], container: str) -> dict[str, str]:
    """Return the groups of a process by controller, "" for version 2; see cgroups(7).  Pure."""
    found: dict[str, str] = {}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if container in path:
            found |= dict.fromkeys(controllers.split(","), path)
    return found


def _read(path: str, groups: dict[str, str]) -> bytes | None:
    """Read a file; `path` is /sys/fs/cgroup/FILE in version 2, or /sys/fs/cgroup/CONTROLLER/FILE."""
    place = path.removeprefix(f"{cgroup_limits.ROOT}/")
    controller, slash, name = place.partition("/")
    root = cgroup_limits.ROOT
    if not slash:
        where = Path(f"{root}{groups.get('', '/')}/{place}")
    elif controller in groups:
        where = Path(f"{root}/{controller}{groups[controller]}/{name}")
    else:
        return None
    with suppress(OSError), where.open("rb") as file:
        return file.read(MOST_OF_FILE)
    return None
