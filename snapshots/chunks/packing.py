"""Packing of a snapshot's files: only pages that are not stored yet are written.

The order makes it safe to end anywhere: packs are on the disk before the recipe that needs them, and the
recipe before anything relies on it. Pages written without a recipe are swept later. A background job leaves
its turn to others in between; at the end it makes sure that every page it found is still there.

The course of a file says where its next page probably is. Memory stays where it was, so the parent snapshot's
file tells it at the same offset. After something was inserted or moved, the next page that is found tells it
again. A wrong guess costs time and nothing else, since digests are compared.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.base import private_files
from holdfast.snapshots.chunks import pack_turn, recipe
from holdfast.snapshots.chunks.chunks import PATIENCE, Chunks
from holdfast.snapshots.chunks.index import PackIndex
from holdfast.snapshots.chunks.pack_turn import PackTurn
from holdfast.snapshots.chunks.pack_upkeep import Marks
from holdfast.snapshots.chunks.pack_writer import PackWriter
from holdfast.snapshots.chunks.packs import (
    DIGEST,
    GROUP,
    GROUP_BYTES,
    NOWHERE,
    PAGE,
    PAGES,
    ZEROS,
    PackDamaged,
    PageRun,
    Runs,
    digest,
)
from holdfast.snapshots.chunks.recipe import Recipe, RecipeFile

ENDLESS = 1 << 62


class PageCourse:
    """The expected places of a snapshot's pages, one after the other.

    Attributes:
        pack: the pack expected to hold the next page; `NOWHERE` for zeros, None if nothing is known.
        page: its number there.
        left: how many pages follow each other from there.
        apart: True if the course follows a pack, in which zeros are left out, and not the parent's file.
    """

    def __init__(self, parent: Recipe | None) -> None:
        """`parent` is the recipe of a snapshot with similar files."""
        self._runs: list[PageRun] = []
        self._starts: dict[str, int] = {}
        for name, file in parent.files.items() if parent is not None else ():
            self._starts[name] = len(self._runs)
            self._runs += file.runs
        self._sorted: list[tuple[str, int, int]] | None = None
        self._at = len(self._runs)
        self.apart = False
        self.pack: str | None = None
        self.page = 0
        self.left = 0

    @property
    def gapped(self) -> bool:
        """True if zeros follow the expected pages here."""
        after = self._at + 1
        return not self.apart and after < len(self._runs) and self._runs[after].pack == NOWHERE

    def begin(self, name: str) -> None:
        """Expect a file as the parent has it under the same name."""
        self._go(self._starts.get(name, len(self._runs)))

    def advance(self, count: int) -> None:
        """Pass pages of the file, whether or not they were in their expected places."""
        while self.pack is not None and count >= self.left:
            count -= self.left
            self._go(self._at + 1)
        self.page += count
        self.left -= count

    def advance_zeros(self, count: int) -> None:
        """Pass pages of zeros, which do not have a place in packs."""
        if not self.apart:
            self.advance(count)

    def follow(self, pack: str, page: int) -> None:
        """Expect the successors of a page that was found elsewhere."""
        if self._sorted is None:
            self._sorted = sorted((run.pack, run.first, at) for at, run in enumerate(self._runs))
        near = bisect_right(self._sorted, (pack, page, ENDLESS)) - 1
        if near >= 0:
            at = self._sorted[near][2]
            run = self._runs[at]
            if run.pack == pack and pack != NOWHERE and page < run.first + run.count:
                self._go(at)
                self.advance(page + 1 - run.first)
                return
        self._at, self.apart = len(self._runs), True
        self.pack, self.page, self.left = pack, page + 1, ENDLESS

    def _go(self, at: int) -> None:
        self._at, self.apart = at, False
        if at < len(self._runs):
            run = self._runs[at]
            self.pack, self.page, self.left = run.pack, run.first, run.count
        else:
            self.pack, self.page, self.left = None, 0, 0


WINDOW = 256 * PAGE
ZEROS_GROUP = bytes(GROUP_BYTES)
REACH = 4 * GROUP
"""Pages among which the pages of one group are looked for if there are zeros between them."""
THREADS = 2
LOOK_AGAIN = 0.01
"""Seconds between two questions of a job that pauses."""


class PackingOvertaken(Exception):
    """During others' turn, pages that were found were removed, or the same snapshot was packed."""


@dataclass(frozen=True, slots=True)
class PackedFiles:
    """The result of packing: bytes of the files, and bytes written for them, recipe and packs together.

    `shared` is about how many bytes are taken by pages that were stored before.
    """

    raw: int
    written: int
    shared: int = 0


def pack(
    chunks: Chunks,
    folder: Path,
    snapshot: str,
    names: list[str],
    patience: float = PATIENCE,
    parent: Recipe | None = None,
    *,
    polite: bool = False,
    pauses: Callable[[], bool] = lambda: False,
    progress: Callable[[int], None] = lambda _done: None,
) -> PackedFiles:
    """Pack files of a snapshot's folder and leave a recipe in it. The files stay.

    Content equal to `parent`'s is found fastest; a different parent, or none, costs only time. With
    `polite`, others that want to change the packs do not have to wait for the end, and the work rests while
    `pauses` returns true. `progress` is called with the bytes packed so far.

    Raises:
        Busy: another process changes the packs for all of `patience` seconds.
        Overtaken: others have removed what it relied on, and another try will store it again; or they have
            packed the snapshot.
        OSError: it cannot be written, or the folder was removed; no snapshot has changed.
    """
    with (
        chunks.changing(patience) as mine,
        ThreadPoolExecutor(THREADS, thread_name_prefix="compress") as pool,
    ):
        for part in folder.glob(recipe.PARTS):
            part.unlink(missing_ok=True)
        packing = _Packing(
            chunks, pool, PageCourse(parent), folder, mine if polite else None, pauses, progress
        )
        try:
            links = recipe.linked(folder, parent, names)
            made = Recipe(
                snapshot, {name: links.get(name) or packing.file(name, folder / name) for name in names}
            )
            written = packing.finish()
            if polite:
                _check(chunks, folder, made.files.values())
            recipe.write(folder, made)
        except BaseException:
            packing.abandon()
            raise
        finally:
            packing.close()
        size = (folder / recipe.FILE).stat().st_size
        marks = Marks()
        marks.add(chunks, made)
    shared = max(0, marks.accounts[snapshot].own - written)
    return PackedFiles(sum(file.bytes for file in made.files.values()), written + size, shared)


def _check(chunks: Chunks, folder: Path, files: Iterable[RecipeFile]) -> None:
    """Raise Overtaken if a snapshot has a recipe by now, or the packs lack pages of these files."""
    if (folder / recipe.FILE).exists():
        raise PackingOvertaken("it is packed")
    chunks.close()
    try:
        for run in (run for file in files for run in file.runs):
            if run.pack != NOWHERE and not chunks.pack(run.pack).holds(run.first, run.count):
                raise PackingOvertaken(run.pack)
    except PackDamaged as error:
        raise PackingOvertaken(str(error)) from error


class _Packing:
    """One snapshot being packed. The turn is left to others that wait for theirs."""

    def __init__(
        self,
        chunks: Chunks,
        pool: ThreadPoolExecutor,
        course: PageCourse,
        folder: Path,
        turn: PackTurn | None,
        pauses: Callable[[], bool],
        progress: Callable[[int], None],
    ) -> None:
        self._chunks = chunks
        self._pool = pool
        self._folder = folder
        self._turn = turn
        self._pauses = pauses
        self._progress = progress
        self._read = 0
        self._claims: list[int] = []
        self._writer: PackWriter | None = None
        self._written = 0
        self._runs = Runs()
        self._course = course
        self._index = self._opened()

    def file(self, name: str, path: Path) -> RecipeFile:
        """Pack one file.

        Raises:
            OSError: it cannot be read, or the pack cannot be written.
        """
        self._runs = Runs()
        self._course.begin(name)
        size = 0
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            for data in _windows(file.fileno()):
                if self._turn is not None and (self._turn.asked or self._pauses()):
                    with self._aside(self._turn):
                        while self._pauses():
                            time.sleep(LOOK_AGAIN)
                size += len(data)
                self._read += len(data)
                if short := -len(data) % PAGE:
                    data += bytes(short)
                self._window(data)
                self._progress(self._read)
        return RecipeFile(size, tuple(self._runs))

    def finish(self) -> int:
        """Make all written data valid; return their size in bytes.

        Raises:
            OSError: it cannot be written.
        """
        self._seal()
        private_files.sync_folder(self._chunks.packs)
        self._index.close()  # if it were not closed in order, it would be made again
        return self._written

    def abandon(self) -> None:
        """Remove everything that is not a complete pack."""
        if self._writer is not None:
            self._writer.abandon()

    def close(self) -> None:
        """Close the index, and release the packs' pages."""
        self._index.close()
        while self._claims:
            os.close(self._claims.pop())

    def _opened(self) -> PackIndex:
        return PackIndex(self._chunks.folder / "index", self._chunks.listing)

    @contextmanager
    def _aside(self, turn: PackTurn) -> Iterator[None]:
        """Let others change the packs in the meantime.

        Raises:
            FileNotFoundError: the snapshot was removed.
        """
        self._index.close()
        self._chunks.close()
        with turn.left():
            yield
        self._index = self._opened()
        self._folder.stat()

    def _seal(self) -> None:
        if self._writer is None:
            return
        if self._turn is not None:
            with self._aside(self._turn):
                self._writer.sync()
        self._written += self._writer.close()
        self._chunks.forget(self._writer.name)
        if self._turn is not None:
            self._claims.append(pack_turn.claim(self._chunks.path(self._writer.name)))
        self._writer = None

    def _window(self, data: bytes | bytearray) -> None:
        """Pack some pages: a group at a time where they are expected, else each for itself."""
        view, course = memoryview(data), self._course
        pages, at = len(data) // PAGE, 0
        while at < pages:
            start = at * PAGE
            if data.startswith(ZEROS, start) and data.startswith(ZEROS_GROUP, start):
                self._runs.add(NOWHERE, 0, GROUP)
                course.advance_zeros(GROUP)
                at += GROUP
                continue
            count = GROUP
            if course.pack is not None:
                count = min(course.left, GROUP - course.page % GROUP)
                if passed := self._group(data, view, at, pages):
                    at += passed
                    continue
            if (course.pack is None or course.apart) and self._fresh(data, view, at, pages):
                at += GROUP
                continue
            end = min(at + count, pages)
            self._cut(data, view, range(start, end * PAGE, PAGE))
            at = end

    def _fresh(self, data: bytes | bytearray, view: memoryview, at: int, pages: int) -> bool:
        """Store a whole group of unknown pages, without checking each of them twice."""
        if at + GROUP > pages:
            return False
        start, end = at * PAGE, (at + GROUP) * PAGE
        names = digest(view[start : start + PAGE])
        if not self._index.lacks(names):
            return False
        starts = range(start, end, PAGE)
        if True in [data.startswith(ZEROS, number) for number in starts]:
            return False
        names += b"".join([digest(view[number : number + PAGE]) for number in starts[1:]])
        if not self._index.lacks(names):
            return False
        writer = self._writing_to(GROUP)
        first = writer.add_all(view[start:end], names)
        self._index.add_all(names, writer.name, first)
        self._runs.add(writer.name, first, GROUP)
        self._course.advance(GROUP)
        return True

    def _group(self, data: bytes | bytearray, view: memoryview, at: int, pages: int) -> int:
        """Pack the group expected here; return its pages, zeros between them included, or 0 if it changed."""
        course = self._course
        if not course.pack or course.page % GROUP:
            return 0
        if course.left >= GROUP:
            end = at + GROUP
            if end > pages or not self._is_group(view[at * PAGE : end * PAGE]):
                return 0
            self._take(GROUP)
            return GROUP
        if not course.gapped:
            return 0
        near = range(at, min(at + REACH, pages))
        filled = [number for number in near if not data.startswith(ZEROS, number * PAGE)][:GROUP]
        joined = b"".join([view[number * PAGE : (number + 1) * PAGE] for number in filled])
        if len(filled) < GROUP or not self._is_group(joined):
            return 0
        after = at
        for page, number in enumerate(filled, course.page):
            if number > after:
                self._runs.add(NOWHERE, 0, number - after)
            self._runs.add(course.pack, page)
            after = number + 1
        course.advance(after - at)
        return after - at

    def _is_group(self, group: bytes | memoryview) -> bool:
        """Return whether these pages are stored as the group expected here."""
        course = self._course
        if not course.pack:
            return False
        try:
            kept = self._chunks.pack(course.pack)
        except PackDamaged:
            return False
        return kept.holds(course.page, GROUP) and kept.group(course.page // GROUP) == digest(group)

    def _cut(self, data: bytes | bytearray, view: memoryview, starts: range) -> None:
        """Pack a few pages, each for itself."""
        runs, course = self._runs, self._course
        expected, at, same = self._expected(len(starts)), 0, 0
        names: list[bytes] = []
        if len(expected) == len(starts) * DIGEST:
            names = [digest(view[start : start + PAGE]) for start in starts]
            if b"".join(names) == expected:
                self._take(len(starts))
                return
        for number, start in enumerate(starts):
            if data.startswith(ZEROS, start):
                self._take(same)
                same = 0
                runs.add(NOWHERE, 0)
                course.advance_zeros(1)
                at += 0 if course.apart else DIGEST
                continue
            name = names[number] if names else digest(view[start : start + PAGE])
            if expected[at : at + DIGEST] == name:
                same += 1
                at += DIGEST
                continue
            self._take(same)
            same = 0
            found = self._find(name)
            if found is not None and not self._writing(found[0]):
                course.follow(*found)
                expected, at = self._expected(len(starts)), 0
            else:
                found = found or self._add(view[start : start + PAGE], name)
                course.advance(1)
                at += DIGEST
            runs.add(*found)
        self._take(same)

    def _expected(self, most: int) -> bytes:
        """Return the digests of the pages expected next; nothing if they are not all there."""
        course = self._course
        if not course.pack:
            return b""
        count = min(most, course.left)
        try:
            kept = self._chunks.pack(course.pack)
        except PackDamaged:
            return b""
        return kept.names(course.page, count) if kept.holds(course.page, count) else b""

    def _take(self, count: int) -> None:
        """Use pages found in their expected places."""
        if count and self._course.pack:
            self._runs.add(self._course.pack, self._course.page, count)
            self._course.advance(count)

    def _find(self, name: bytes) -> tuple[str, int] | None:
        for pack_name, number in self._index.find(name):
            if self._is(pack_name, number, name):
                return pack_name, number
        return None

    def _add(self, page: memoryview, name: bytes) -> tuple[str, int]:
        writer = self._writing_to(1)
        number = writer.add_all(page, name)
        self._index.add_all(name, writer.name, number)
        return writer.name, number

    def _writing_to(self, pages: int) -> PackWriter:
        """Return a pack with room for this many pages."""
        if self._writer is not None and self._writer.pages + pages > PAGES:
            self._seal()
        if self._writer is None:
            self._writer = PackWriter(self._chunks.packs, self._pool)
        return self._writer

    def _writing(self, pack_name: str) -> bool:
        return self._writer is not None and pack_name == self._writer.name

    def _is(self, pack_name: str, number: int, name: bytes) -> bool:
        if self._writer is not None and pack_name == self._writer.name:
            return number < self._writer.pages and self._writer.digest(number) == name
        try:
            kept = self._chunks.pack(pack_name)
        except PackDamaged:
            return False
        return kept.holds(number) and kept.digest(number) == name


def _windows(file: int) -> Iterator[bytes | bytearray]:
    """Yield a file in windows; each one replaces the contents of the last."""
    window = bytearray(WINDOW)
    with memoryview(window) as view:
        while size := _filled(file, view):
            yield window if size == WINDOW else bytes(view[:size])


def _filled(file: int, view: memoryview) -> int:
    at = 0
    while at < len(view) and (count := os.readv(file, [view[at:]])):
        at += count
    return at
