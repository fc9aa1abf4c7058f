"""Packing of a snapshot's files: pages already stored are found, only the rest is written.

The order makes it safe to end anywhere: packs are on the disk before the recipe that needs them, and the
recipe before anything relies on it. Pages written without a recipe are swept later.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from holdfast.base import private_files
from holdfast.snapshots.chunks import recipe
from holdfast.snapshots.chunks.chunks import PATIENCE, Chunks
from holdfast.snapshots.chunks.index import PackIndex
from holdfast.snapshots.chunks.pack_writer import PackWriter
from holdfast.snapshots.chunks.packs import PackDamaged
from holdfast.snapshots.chunks.pages import GROUP, NOWHERE, PAGE, ZEROS, Runs, digest
from holdfast.snapshots.chunks.recipe import Recipe, RecipeFile
from holdfast.snapshots.chunks.sweeping import Marks

WINDOW = 256 * PAGE
THREADS = 2


@dataclass(frozen=True, slots=True)
class Packed:
    """The result of packing: bytes of the files, and bytes written for them, recipe and packs together.

    `shared` is about how many bytes are taken by pages that were stored before.
    """

    raw: int
    written: int
    shared: int = 0


def pack(chunks: Chunks, folder: Path, snapshot: str, names: list[str], patience: float = PATIENCE) -> Packed:
    """Pack files of a snapshot's folder and leave a recipe in it. The files stay.

    Raises:
        Busy: another process changes the packs for all of `patience` seconds.
        OSError: it cannot be written; the packs are unchanged.
    """
    with chunks.changing(patience):
        index = PackIndex(chunks.folder / "index", chunks.listing)
        try:
            with ThreadPoolExecutor(THREADS, thread_name_prefix="compress") as pool:
                packing = _Packing(chunks, index, pool)
                try:
                    files = {name: packing.file(folder / name) for name in names}
                    written = packing.finish()
                except BaseException:
                    packing.abandon()
                    raise
        finally:
            index.close()
        made = Recipe(snapshot, files)
        recipe.write(folder, made)
        size = (folder / recipe.FILE).stat().st_size
        marks = Marks()
        marks.add(chunks, made)
    shared = max(0, marks.accounts[snapshot].own - written)
    return Packed(sum(file.bytes for file in files.values()), written + size, shared)


class _Packing:
    """One snapshot being packed."""

    def __init__(self, chunks: Chunks, index: PackIndex, pool: ThreadPoolExecutor) -> None:
        self._chunks = chunks
        self._index = index
        self._pool = pool
        self._writer: PackWriter | None = None
        self._written = 0
        self._runs = Runs()
        # The place of the next page, if the file continues as it did when its pages were first stored.
        self._expected: tuple[str, int] | None = None

    def file(self, path: Path) -> RecipeFile:
        """Pack one file.

        Raises:
            OSError: it cannot be read, or the pack cannot be written.
        """
        self._runs = Runs()
        size = 0
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            for data in _windows(file.fileno()):
                size += len(data)
                if short := -len(data) % PAGE:
                    data += bytes(short)
                self._window(data)
        return RecipeFile(size, tuple(self._runs))

    def finish(self) -> int:
        """Make everything written valid; return its size in bytes.

        Raises:
            OSError: it cannot be written.
        """
        self._seal()
        private_files.sync_folder(self._chunks.packs)
        return self._written

    def abandon(self) -> None:
        """Remove everything that is not a complete pack."""
        if self._writer is not None:
            self._writer.abandon()

    def _seal(self) -> None:
        if self._writer is not None:
            self._written += self._writer.close()
            self._chunks.forget(self._writer.name)
            self._writer = None

    def _window(self, data: bytes) -> None:
        pages = [data[at : at + PAGE] for at in range(0, len(data), PAGE)]
        filled = [number for number, page in enumerate(pages) if page != ZEROS]
        at, next_page = 0, 0
        while at < len(filled):
            number = filled[at]
            if number > next_page:
                self._runs.add(NOWHERE, 0, number - next_page)
            taken = self._group(pages, filled, at)
            if taken:
                at += taken
                next_page = filled[at - 1] + 1
                continue
            place = self._page(pages[number])
            self._runs.add(*place)
            self._expected = (place[0], place[1] + 1)
            at, next_page = at + 1, number + 1
        if next_page < len(pages):
            self._runs.add(NOWHERE, 0, len(pages) - next_page)

    def _group(self, pages: list[bytes], filled: list[int], at: int) -> int:
        """Return how many pages are stored as the group expected here: all of it, or 0."""
        if self._expected is None or len(filled) < at + GROUP:
            return 0
        name, first = self._expected
        if first % GROUP:
            return 0
        try:
            kept = self._chunks.pack(name)
        except PackDamaged:
            return 0
        if not kept.holds(first, GROUP):
            return 0
        chosen = filled[at : at + GROUP]
        if digest(b"".join([pages[number] for number in chosen])) != kept.group(first // GROUP):
            return 0
        before = chosen[0]
        for offset, number in enumerate(chosen):
            if number > before:
                self._runs.add(NOWHERE, 0, number - before)
            self._runs.add(name, first + offset)
            before = number + 1
        self._expected = (name, first + GROUP)
        return GROUP

    def _page(self, page: bytes) -> tuple[str, int]:
        name = digest(page)
        for pack_name, number in self._index.find(name):
            if self._is(pack_name, number, name):
                return pack_name, number
        if self._writer is not None and self._writer.full:
            self._seal()
        if self._writer is None:
            self._writer = PackWriter(self._chunks.packs, self._pool)
        number = self._writer.add(page, name)
        self._index.add(name, self._writer.name, number)
        return self._writer.name, number

    def _is(self, pack_name: str, number: int, name: bytes) -> bool:
        if self._writer is not None and pack_name == self._writer.name:
            return self._writer.digest(number) == name
        try:
            kept = self._chunks.pack(pack_name)
        except PackDamaged:
            return False
        return kept.holds(number) and kept.digest(number) == name


def _windows(file: int) -> Iterator[bytes]:
    while data := os.read(file, WINDOW):
        while len(data) % PAGE and (more := os.read(file, WINDOW - len(data))):
            data += more
        yield data
