"""The process that packs snapshots after they were taken, one for each home, with the lowest priority.

    python -m holdfast.runtime.storage.background_packer HOME [LOCK]

It pauses while a caller waits for a start, a capture or a restore. It reads and writes files of the home,
and nothing a session can reach. It needs the engine only for images of snapshots that are still to be made
(`snapshots/layer/unmade_image.py`), and packs without it. It can be killed at any moment: a snapshot has
its plain images until its recipe is complete, and keeps them after that. It ends when there is nothing left
to do, and does not import pydantic, which would take longer than packing an ordinary session.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdfast.base import locks
from holdfast.base.home import Home
from holdfast.errors import EngineError, SnapshotDamaged, StoreError
from holdfast.runtime.storage import packing_request, snapshot_lock
from holdfast.runtime.store import packed_sizes, peek
from holdfast.runtime.store.packed_sizes import Unpacked
from holdfast.snapshots import raw_cache
from holdfast.snapshots.chunks import pack_upkeep, packing, recipe
from holdfast.snapshots.chunks.chunks import Chunks, PacksBusy
from holdfast.snapshots.chunks.recipe import RecipeDamaged
from holdfast.snapshots.layer import unmade_image

TRIES = 3
"""Attempts to pack a snapshot whose pages others remove during that."""
SWEEP_SECONDS = 10.0
AWAITED = ("new", "snapshot", "suspend", "resume", "restore", "rewind")
"""Kinds of operations that a caller waits for: they need the processor and the disk."""
LOOK_SECONDS = 0.01
"""How often the packer looks for these; a look takes 0.2 ms."""
PAUSE_SECONDS = 10.0
"""How long it pauses at most; one that takes longer waits for something other than this machine."""
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
_IDLE_CLASS = 3 << 13
_THIS_PROCESS = 1


def run(home: Home, lock: int | None = None) -> None:
    """Do the pending work, unless another process is doing it; `lock` is held by this one already."""
    while packing_request.due(home):
        try:
            with _taken(lock) if lock is not None else locks.whole_file(packing_request.lock_of(home), 0.0):
                lock = None
                more = _Round(home).run()
        except BlockingIOError:
            return
        if not more:
            return


@contextmanager
def _taken(lock: int) -> Iterator[int]:
    try:
        yield lock
    finally:
        os.close(lock)


class Pauses:
    """Decides when to pause: while other work is awaited, but at most half of the time.

    A home in which something always is would otherwise never be packed. Pure: looks and clock are given.
    """

    def __init__(self, awaited: Callable[[], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self._awaited = awaited
        self._clock = clock
        self._since: float | None = None
        self._next = clock()

    def __call__(self) -> bool:
        """Return whether to pause now; called continually, also during a pause."""
        now = self._clock()
        if self._since is None:
            if now < self._next:
                return False
            self._next = now + LOOK_SECONDS
            if self._awaited():
                self._since = now
            return self._since is not None
        paused = now - self._since
        if paused < PAUSE_SECONDS and self._awaited():
            return True
        self._since, self._next = None, now + max(paused, LOOK_SECONDS)
        return False


class _Round:
    """One pass over unpacked snapshots; `why` is the last reason for a failure."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._sweeps = packing_request.wants_sweep(home)
        self._pauses = Pauses(self._awaited)
        self._seen: set[Path] = set()
        self.why = ""

    def run(self) -> bool:
        """Pack, sweep if that is needed, and remove the mark unless something is left.

        Returns whether it is worth looking for more: nothing has failed.
        """
        home, seen, tried = self._home, packing_request.mark_of(self._home), set[str]()
        try:
            self._make_images()
            while waiting := [one for one in packed_sizes.unpacked(home.database) if one.id not in tried]:
                tried.add(waiting[0].id)
                self._pack(waiting[0])
            raw_cache.evict(home.snapshots)
            if self._sweeps:
                self._sweep()
            if self.why:
                packing_request.postpone(home, self.why)
            elif packing_request.clear(home, seen) and (
                packed_sizes.unpacked(home.database) or self._unmade()
            ):
                packing_request.mark(home)  # it became ready just before the mark was removed
            return not self.why
        except (StoreError, OSError, sqlite3.Error) as error:
            with suppress(OSError):  # the home may be gone
                packing_request.postpone(home, str(error))
            return False

    def _unmade(self) -> set[Path]:
        """Return the snapshots whose image is to be made, without snapshots that this round has tried."""
        return set(unmade_image.folders(self._home.snapshots)) - self._seen

    def _make_images(self) -> None:
        """Make images before anything is packed: restores wait for them."""
        if not (found := self._unmade()):
            return
        while self._pauses():
            time.sleep(LOOK_SECONDS)
        from holdfast.engine.engine import Engine  # its SDK takes as long to load as packing a little

        self._seen |= found
        try:
            engine = Engine.connect()
            self.why = next(iter(unmade_image.settle(engine, self._home.snapshots)), "")
            engine.close()
        except EngineError as error:
            self.why = str(error)

    def _pack(self, one: Unpacked) -> None:
        home, folder = self._home, self._home.snapshots / one.id
        try:
            with raw_cache.held(folder), Chunks(home.root) as chunks:
                guide = recipe.guide(home.snapshots / one.parent, one.parent) if one.parent else None
                for _ in range(TRIES):
                    if (folder / recipe.FILE).exists():
                        self._sweeps = True  # it is not counted yet
                        return
                    with suppress(packing.PackingOvertaken):
                        names = _images(folder)
                        done = packing.pack(
                            chunks, folder, one.id, names, parent=guide, polite=True, pauses=self._pauses
                        )
                        packed_sizes.record(home.database, one.id, own=done.written, shared=done.shared)
                        return
            self.why = "the stored pages keep changing"
        except (PacksBusy, SnapshotDamaged, OSError) as error:
            if snapshot_lock.is_kept(home, one.id):
                self.why = str(getattr(error, "strerror", None) or error)
            else:
                self._sweeps = True  # it is or was removed meanwhile: what it needed is not needed any more

    def _awaited(self) -> bool:
        since = datetime.now(UTC) - timedelta(seconds=PAUSE_SECONDS)
        return peek.awaited(self._home.database, AWAITED, since)

    def _sweep(self) -> None:
        """Remove unneeded pages, and recount the size of each snapshot."""
        home = self._home
        # Listed as it is read, within the turn: one that is renamed meanwhile appears at least once.
        folders = (path for parent in (home.staging, home.snapshots) for path in parent.iterdir())
        with suppress(RecipeDamaged), Chunks(home.root) as chunks, chunks.changing(SWEEP_SECONDS):
            packing_request.swept(home)
            _, marks = pack_upkeep.sweep(chunks, folders)
            for snapshot, account in marks.accounts.items():
                packed_sizes.record(home.database, snapshot, own=account.own, shared=account.shared)


def _images(folder: Path) -> list[str]:
    """Return the names of a snapshot's process images, as its manifest has them.

    Raises:
        SnapshotDamaged: the manifest is not valid.
    """
    try:
        listed = json.loads((folder / "manifest.json").read_bytes())["files"]
        names = [str(entry["name"]) for entry in listed]
    except (ValueError, TypeError, LookupError) as error:
        raise SnapshotDamaged(f"cannot pack snapshot {folder.name}: its manifest is not valid") from error
    return [name for name in names if Path(name).parts[:-1] == (raw_cache.IMAGES,)]


def stand_back() -> None:
    """Use processor and disk only when no other process needs them."""
    os.nice(packing_request.LOWEST)
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:
        ctypes.CDLL(None).syscall(number, _THIS_PROCESS, 0, _IDLE_CLASS)


def main() -> int:
    """Pack the unpacked snapshots of the home named on the command line."""
    stand_back()
    run(Home(Path(sys.argv[1])), int(sys.argv[2]) if len(sys.argv) > 2 else None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
