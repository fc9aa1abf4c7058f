"""The folder of packs: its listing, the lock for changing them, packs opened for reading, and files rebuilt.

    chunks/packs/NAME.pack   pages; see `packs`
    chunks/index             finds pages; see `index`
    chunks/lock, wanted      whose turn it is to write or sweep packs; see `pack_turn`

One process at a time changes it. Reading takes no lock: packs never change, and a replaced or removed one
stays complete for readers that have it open. `Unpacking` makes holes where pages are zeros; its caller
checks the whole file against its digest, and only unreadable pages are detected here.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from holdfast.errors import StoreError
from holdfast.snapshots.chunks import pack_turn
from holdfast.snapshots.chunks.pack_turn import PackTurn
from holdfast.snapshots.chunks.pack_writer import PART
from holdfast.snapshots.chunks.packs import BLOCK, NOWHERE, PAGE, SUFFIX, Pack, PackDamaged, PageRun
from holdfast.snapshots.chunks.recipe import RecipeFile

PATIENCE = 600.0
"""Seconds to wait for another process that packs; 100 GiB take about this long."""
OPEN = 64
"""Packs open together; each holds a directory of at most 1.2 MiB."""
BLOCKS_KEPT = 64
"""Unpacked blocks kept for later reads: 16 MiB."""


class PacksBusy(StoreError):
    """Another process is changing the packs."""

    code = "store_busy"


class Chunks:
    """The packs of one home, as one thread sees them."""

    def __init__(self, root: Path) -> None:
        """`root` is the state directory of a home."""
        self.root = root
        self.folder = root / "chunks"
        self.packs = self.folder / "packs"
        self._opened: OrderedDict[str, Pack] = OrderedDict()
        self._missing: set[str] = set()

    def __enter__(self) -> Chunks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all packs."""
        while self._opened:
            self._opened.popitem()[1].close()
        self._missing.clear()

    def forget(self, name: str) -> None:
        """Forget the open packs and the listing: a pack was made, replaced or removed."""
        self._missing.discard(name)
        if (pack := self._opened.pop(name, None)) is not None:
            pack.close()

    def pack(self, name: str) -> Pack:
        """Return a pack to read from.

        Raises:
            PackDamaged: it is missing or damaged.
        """
        found = self._opened.get(name)
        if found is not None:
            self._opened.move_to_end(name)
            return found
        if name in self._missing:
            raise PackDamaged(f"pack {name} is missing or damaged")
        try:
            found = Pack(self.path(name))
        except PackDamaged:
            self._missing.add(name)
            raise
        self._opened[name] = found
        while len(self._opened) > OPEN:
            self._opened.popitem(last=False)[1].close()
        return found

    def path(self, name: str) -> Path:
        """Return the path of a pack."""
        return self.packs / f"{name}{SUFFIX}"

    def names(self) -> list[str]:
        """Return the names of the existing packs."""
        with suppress(FileNotFoundError):
            return sorted(path.name.removesuffix(SUFFIX) for path in self.packs.glob(f"*{SUFFIX}"))
        return []

    def listing(self) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield name, digests and present pages of every pack that can be read."""
        for name in self.names():
            with suppress(PackDamaged):
                pack = Pack(self.path(name))
                pack.close()
                yield name, pack.directory.digests, pack.directory.present

    def bytes(self) -> int:
        """Return the space everything takes on the disk."""
        total = 0
        for path in (*self.packs.glob("*"), self.folder / "index"):
            with suppress(OSError):
                total += path.stat().st_blocks * 512
        return total

    @contextmanager
    def changing(self, patience: float = PATIENCE) -> Iterator[PackTurn]:
        """Take the turn to write and sweep packs. Leftovers of a killed process are removed.

        Raises:
            Busy: another process had it for all of `patience` seconds.
            StoreError: the folder cannot be used.
        """
        try:
            self.packs.mkdir(mode=0o700, parents=True, exist_ok=True)
            turn = PackTurn(self.folder)
        except StoreError:
            raise
        except OSError as error:
            raise self._unusable(error) from error
        with closing(turn):
            try:
                turn.take(patience)
                for path in self.packs.glob(f".*{PART}"):
                    if not pack_turn.claimed(path):
                        path.unlink(missing_ok=True)
            except BlockingIOError as error:
                raise PacksBusy(
                    "cannot change the store: another process is changing it", hint="try again later"
                ) from error
            except OSError as error:
                raise self._unusable(error) from error
            yield turn

    def _unusable(self, error: OSError) -> StoreError:
        return StoreError(f"cannot use {self.folder}: {error.strerror or error}")


class Unpacking:
    """A reader of pages that keeps the few most recently unpacked blocks."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def write(self, file: RecipeFile, path: Path) -> None:
        """Make a new file.

        Raises:
            PackDamaged: a pack cannot be read.
            OSError: the file cannot be written.
        """
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            at = 0
            for run in file.runs:
                if run.pack != NOWHERE:
                    self._write(descriptor, run, at)
                at += run.count * PAGE
            os.truncate(descriptor, file.bytes)
        finally:
            os.close(descriptor)

    def pages(self, pack_name: str, first: int, count: int) -> bytes:
        """Return some pages of one block.

        Raises:
            PackDamaged: the pack cannot be read or lacks the pages.
        """
        pack = self._chunks.pack(pack_name)
        if not pack.holds(first, count):
            raise PackDamaged(f"pack {pack_name} lacks pages")
        key = (pack_name, first // BLOCK)
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = pack.block(key[1])
            if len(self._blocks) > BLOCKS_KEPT:
                self._blocks.popitem(last=False)
        else:
            self._blocks.move_to_end(key)
        start = pack.before(first) * PAGE
        return block[start : start + count * PAGE]

    def _write(self, descriptor: int, run: PageRun, at: int) -> None:
        number, end = run.first, run.first + run.count
        while number < end:
            count = min(end, number - number % BLOCK + BLOCK) - number
            os.pwrite(descriptor, self.pages(run.pack, number, count), at)
            number, at = number + count, at + count * PAGE
