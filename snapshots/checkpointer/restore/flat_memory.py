"""The memory of a process with pages in the images of several captures, as one image.

CRIU follows pages from capture to capture in memory that it reads immediately, not in memory that it loads
on demand. So its image is written again, in the scratch folder of a restore: with all pages in the order of
their addresses, as CRIU counts them. Those that wait stay in the files they are in. The image has holes in
their place, and a list for the process that serves memory says where each of them is (guard_pages.c). Others,
which CRIU reads itself, are copied.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from pycriu.images import pagemap_pb2

from holdfast.snapshots.checkpointer.carried import heaps
from holdfast.snapshots.checkpointer.carried.heaps import LAZY, PAGE, PRESENT
from holdfast.snapshots.checkpointer.criu import criu_images
from holdfast.snapshots.checkpointer.record import ImagesUnreadable, page_chain
from holdfast.snapshots.checkpointer.record.earlier_names import MOST
from holdfast.snapshots.checkpointer.record.page_chain import CapturedPages


@dataclass(frozen=True, slots=True, order=True)
class _Piece:
    """Pages at an address: in the file of that many captures before, at this position."""

    address: int
    size: int
    captures: int
    position: int
    flags: int


@dataclass(frozen=True, slots=True)
class _PlacedPages:
    """Pages at `at` of the new image: bytes from a position of a file, copied unless they wait."""

    at: int
    size: int
    captures: int
    position: int
    waits: bool


class FlatMemory:
    """The memory of one process, by the number in the names of its images in the folder `kept`."""

    def __init__(self, kept: Path, number: str) -> None:
        """Find all pages.

        Raises:
            ImagesUnreadable: they are not images of a capture, or pages are missing.
            OSError: they cannot be read.
        """
        self._kept = kept
        self.name = f"pagemap-{number}.img"
        self._magic = b""
        self._head: Any = None
        self._files: list[str] = []
        self._pieces = sorted(self._found())
        if any(one.address + one.size > after.address for one, after in pairwise(self._pieces)):
            raise ImagesUnreadable(f"{self.name} names a page twice")

    @property
    def is_of_several(self) -> bool:
        """Whether some of it is in the images of earlier captures."""
        return any(piece.captures for piece in self._pieces)

    def marked(self, waiting: Sequence[tuple[int, int]]) -> MarkedMemory:
        """Divide it into pages of `waiting` heaps (`heaps.waiting_heaps`) and others."""
        return MarkedMemory(self, [*heaps.mark_waiting(self._entries(), waiting)])

    def _found(self) -> Iterator[_Piece]:
        last: CapturedPages | None = None
        for last in page_chain.follow(self._read, self.name):
            self._head = self._head or last.head
            self._files.append(last.file)
            room = self._bytes(last.captures) if last.parts else 0
            for position, address, size, flags in last.parts:
                if position + size > room:
                    raise ImagesUnreadable(f"{last.file} is shorter than {self.name} says")
                yield _Piece(address, size, last.captures, position, flags)
            if last.missing:
                raise ImagesUnreadable(f"{self.name} names pages that no earlier capture has")
        if last is not None and last.left and last.captures == MOST:
            raise ImagesUnreadable(f"{self.name} reaches too many captures back")
        if last is None or last.left:
            raise ImagesUnreadable(f"{self.name} lacks pages that an earlier capture had")

    def _read(self, name: str) -> Sequence[Any]:
        magic, listed = criu_images.read(self._kept / name)
        self._magic = self._magic or magic
        return listed

    def _entries(self) -> Iterator[Any]:
        for piece in self._pieces:
            for address, pages in heaps.page_entries(piece.address, piece.size):
                flags = PRESENT | piece.flags & LAZY
                yield pagemap_pb2.pagemap_entry(vaddr=address, compat_nr_pages=0, flags=flags, nr_pages=pages)

    def parts(self, marked: Sequence[tuple[Any, bool]]) -> Iterator[_PlacedPages]:
        """Yield where the pages of these entries are, in their order."""
        at = number = 0
        for entry, waits in marked:
            while self._pieces[number].address + self._pieces[number].size <= entry.vaddr:
                number += 1
            piece, size = self._pieces[number], entry.nr_pages * PAGE
            yield _PlacedPages(at, size, piece.captures, piece.position + entry.vaddr - piece.address, waits)
            at += size

    def _bytes(self, captures: int) -> int:
        try:
            return (self._kept / self._files[captures]).stat().st_size
        except OSError as error:
            raise ImagesUnreadable(f"{self._files[captures]} cannot be read ({error.strerror})") from error

    def open(self, captures: int) -> int:
        """Open the file with the pages of that many captures before. Raises OSError."""
        return os.open(self._kept / self._files[captures], os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)

    def write(self, images: Path, marked: Sequence[tuple[Any, bool]]) -> Path:
        """Write the map of pages into the scratch folder; return the path of the pages it is of."""
        path = images / self.name
        path.unlink(missing_ok=True)  # a link to what is kept
        criu_images.write(path, self._magic, [self._head, *(entry for entry, _ in marked)])
        return images / f"pages-{self._head.pages_id}.img"

    @property
    def pages_id(self) -> int:
        """CRIU's number of the file with its pages."""
        return int(self._head.pages_id)


class MarkedMemory:
    """The memory of one process, of which the large heaps wait until they are used."""

    def __init__(self, memory: FlatMemory, marked: list[tuple[Any, bool]]) -> None:
        self.memory = memory
        self._marked = marked

    @property
    def waiting_pages(self) -> int:
        """The number of pages that wait."""
        return sum(entry.nr_pages for entry, waits in self._marked if waits)

    def write(self, images: Path, places: WaitingPages) -> None:
        """Write its images into the scratch folder, and its waiting pages into a list.

        Raises:
            OSError: the disk is full, or a kept file cannot be read.
        """
        pages = self.memory.write(images, self._marked)
        if not self.memory.is_of_several:
            return
        pages.unlink(missing_ok=True)  # a link to what is kept
        parts = [*_joined(self.memory.parts(self._marked))]
        files = {captures: self.memory.open(captures) for captures in sorted({one.captures for one in parts})}
        try:
            with pages.open("xb", buffering=0) as new:
                os.truncate(new.fileno(), parts[-1].at + parts[-1].size)
                for one in parts:
                    if not one.waits:
                        _copy(files[one.captures], new.fileno(), one)
            waiting = {one.captures for one in parts if one.waits}
            places.add(
                self.memory.pages_id,
                {captures: files.pop(captures) for captures in waiting},
                [(one.at, one.size, one.captures, one.position) for one in parts if one.waits],
            )
        finally:
            for descriptor in files.values():
                os.close(descriptor)


class WaitingPages:
    """The list of pages that wait in files of several captures, for the guard; to be closed."""

    def __init__(self) -> None:
        self._files: list[int] = []
        self._lines: list[str] = []
        self._list = -1

    def add(self, pages_id: int, files: dict[int, int], parts: Sequence[tuple[int, int, int, int]]) -> None:
        """Add the waiting pages of one image.

        Each has its place there, its bytes, its key of `files`, and its place in that file.

        The descriptors are this list's from now on.
        """
        self._files += files.values()
        self._lines += [
            f"{pages_id} {at} {size} {files[key]} {position}\n" for at, size, key, position in parts
        ]

    @property
    def handles(self) -> tuple[int, ...]:
        """Descriptors that CRIU has to inherit at their numbers."""
        return (*self._files, *((self._list,) if self._list >= 0 else ()))

    @property
    def environment(self) -> dict[str, str]:
        """The variables for the guard. Raises OSError."""
        if not self._lines:
            return {}
        if self._list < 0:
            self._list = os.memfd_create("pages")
            with open(self._list, "wb", closefd=False) as stream:
                stream.write("".join(self._lines).encode())
        return {"HOLDFAST_PAGES": str(self._list)}

    def close(self) -> None:
        """Close all files."""
        for descriptor in self.handles:
            with suppress(OSError):
                os.close(descriptor)
        self._files, self._lines, self._list = [], [], -1


def _joined(parts: Iterator[_PlacedPages]) -> Iterator[_PlacedPages]:
    """Join parts that follow one another in both files."""
    last: _PlacedPages | None = None
    for one in parts:
        if last is not None and (last.captures, last.waits, last.position + last.size) == (
            one.captures,
            one.waits,
            one.position,
        ):
            last = _PlacedPages(last.at, last.size + one.size, last.captures, last.position, last.waits)
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


def _copy(source: int, target: int, part: _PlacedPages) -> None:
    done = 0
    while done < part.size:
        copied = os.copy_file_range(source, target, part.size - done, part.position + done, part.at + done)
        if not copied:
            raise ImagesUnreadable("images of pages are shorter than their maps say")
        done += copied
