"""Freeze, snapshot, restore and fork of heaps of random bytes, by Holdfast and by its peers in turn.

The freeze of a session is measured from inside by a ticker, in captures of their own: the ticker keeps a
processor busy, which would be counted against the restore.
"""

from __future__ import annotations

import ctypes
import mmap
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from bench.capturers.capturer import Capturer, Unavailable, longest_gap
from bench.capturers.ours import Ours
from bench.disk_floor import seconds_to_write
from bench.plan import Plan, heap_name
from bench.rounds import timed
from bench.row import Row, skipped
from bench.stats import Series, Target, freeze_limit
from bench.world import World

FAMILY = "snapshots"
FORKS = 3
LARGE = 1 << 30
"""From this size on, in bytes, the targets of large heaps hold."""
_FLAT = Target(0.15, "value", "a freeze does not grow with the heap")
_SAFE = Target(1.0, "ratio", "a snapshot returns when it is on the disk")
_RESTORE = Target(1.2, "ratio", "memory is loaded as it is needed")
_FORK = Target(2.0, "ratio", "three share what they load")
_Step = Callable[[Capturer], None]


def rows(world: World, plan: Plan, peers: Sequence[Capturer]) -> Iterator[Row]:
    """Measure each heap, with all tools in turn, and yield the rows of each."""
    smallest = None
    for heap in plan.heaps:
        measured = _Heap(world, heap, peers)
        yield from measured.rows(plan.heap, smallest)
        smallest = smallest or measured.freezes()


class _Heap:
    def __init__(self, world: World, heap: int, peers: Sequence[Capturer]) -> None:
        self._world = world
        self._heap = heap
        self._group = heap_name(heap)
        self._ours = Ours(world)
        self._peers = list(peers)
        self._failed: dict[str, str] = {}
        self._found: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        self._memory = _Copy(heap)
        self._counts = False

    def rows(self, rounds: int, smallest: Series | None) -> Iterator[Row]:
        """Measure in rounds; `smallest` has the freezes of the smallest heap, if this is another one."""
        everyone: list[Capturer] = [self._ours, *self._peers]
        try:
            for each in everyone:
                self._world.tell(f"{self._group}: {each.name}")
                self._guard(each, self._begin)
            for turn in range(rounds + 1):
                self._counts = turn > 0
                which = f"round {turn} of {rounds}" if turn else "warming up"
                self._note("memcpy", "copy", self._memory.seconds())
                self._note("disk", "write", seconds_to_write(self._world.home / "written", self._heap))
                self._note("docker run … true", "run", timed(self._world.docker_run))
                self._world.sweep()
                for each in everyone[turn % len(everyone) :] + everyone[: turn % len(everyone)]:
                    self._world.tell(f"{self._group}: {which}, {each.name}")
                    self._guard(each, self._round)
        finally:
            self._memory.close()
            for each in everyone:
                each.end()
        yield from self._report(smallest)

    def _guard(self, each: Capturer, step: _Step) -> None:
        """Leave a peer that fails out from then on; Holdfast may not fail."""
        if each.name in self._failed:
            return
        try:
            step(each)
        except Unavailable as error:
            if each is self._ours:
                raise
            self._failed[each.name] = str(error)
            each.end()

    def _begin(self, each: Capturer) -> None:
        each.begin(self._heap)

    def _round(self, each: Capturer) -> None:
        gap, taken = longest_gap(each)
        self._note(each.name, "freeze", gap)
        if taken.reported is not None:
            self._note(each.name, "reported", taken.reported)
        each.drop()
        taken = each.capture()
        self._note(each.name, "snapshot", taken.seconds)
        self._note(each.name, "bytes", taken.bytes)
        seconds, _ = each.restore()
        self._note(each.name, "restore", seconds)
        if each is self._ours:
            self._note(each.name, "read", self._ours.read_heap())
            self._ours.drop_restored()
            self._note(each.name, "fork", self._ours.fork(FORKS))
        each.drop()

    def _note(self, who: str, what: str, value: float) -> None:
        if self._counts:
            self._found[who, what].append(value)

    def _series(self, who: str, what: str) -> Series:
        return Series(who, "bytes" if what == "bytes" else "s", tuple(self._found[who, what]))

    def _safe(self) -> Series:
        """Return what a snapshot may take: its freeze, 1.3 times the writing of the heap, and 150 ms."""
        freezes, writes = self._found[self._ours.name, "reported"], self._found["disk", "write"]
        allowed = (freeze + 1.3 * write + 0.15 for freeze, write in zip(freezes, writes, strict=True))
        return Series("freeze, 1.3 × writing as much, 150 ms", "s", tuple(allowed))

    def freezes(self) -> Series:
        """Return what was measured of the freezes, to compare with those of other heaps."""
        return Series(f"with {self._group}", "s", self._series(self._ours.name, "reported").samples)

    def _report(self, smallest: Series | None) -> Iterator[Row]:
        copy, run = self._series("memcpy", "copy"), self._series("docker run … true", "run")
        limit = Target(
            freeze_limit(copy.median), "value", f"100 ms + 6 × memcpy ({copy.median * 1000:.0f} ms)"
        )
        everyone = [self._ours.name, *(each.name for each in self._peers)]
        for who in everyone:
            mine = who == self._ours.name
            if why := self._failed.get(who):
                yield skipped(FAMILY, "freeze, snapshot, restore", who, why, group=self._group)
                continue
            yield Row(
                FAMILY,
                "freeze, as seen inside",
                self._series(who, "freeze"),
                group=self._group,
                baseline=copy,
                target=limit if mine else None,
                note=limit.why,
            )
            large = mine and self._heap >= LARGE
            if mine:
                reported = self._series(who, "reported")
                yield Row(
                    FAMILY,
                    "freeze, as reported",
                    reported,
                    group=self._group,
                    baseline=smallest,
                    target=_FLAT if large else None,
                )
            yield Row(
                FAMILY,
                "snapshot, total",
                self._series(who, "snapshot"),
                group=self._group,
                baseline=self._safe() if large else None,
                target=_SAFE if large else None,
            )
            yield Row(
                FAMILY,
                "restore to first command",
                self._series(who, "restore"),
                group=self._group,
                baseline=run,
                target=_RESTORE if large else None,
            )
            if mine:
                yield Row(FAMILY, "then, whole heap read", self._series(who, "read"), group=self._group)
                yield Row(
                    FAMILY,
                    f"fork of {FORKS}, all answered",
                    self._series(who, "fork"),
                    group=self._group,
                    baseline=run,
                    target=_FORK if large else None,
                )
            yield Row(
                FAMILY,
                "bytes of a snapshot",
                self._series(who, "bytes"),
                group=self._group,
                baseline=Series("heap", "bytes", (float(self._heap),)),
            )


class _Copy:
    """Two pieces of memory of the same size, both in use."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._from = mmap.mmap(-1, size)
        self._to = mmap.mmap(-1, size)
        # Pages that were never written are all the same one, which is copied from the cache.
        ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(self._from)), 1, size)
        self.seconds()  # touches every page

    def seconds(self) -> float:
        """Return the seconds to copy one to the other."""
        source = ctypes.c_char.from_buffer(self._from)
        target = ctypes.c_char.from_buffer(self._to)
        return timed(lambda: ctypes.memmove(ctypes.addressof(target), ctypes.addressof(source), self._size))

    def close(self) -> None:
        """Free the memory."""
        self._from.close()
        self._to.close()
