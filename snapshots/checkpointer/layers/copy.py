"""Copies a session's layer in passes: all of it while the session runs, later changes while it is frozen.

A file is unchanged if the kernel's record of it is: inode, size, times, mode, owner. Programs cannot set the
time of the last change (ctime). Where that is not conclusive, a file is copied again: it was changed within a
tick of the kernel's clock before it was examined; a process had it open for writing (`contents`) and changed
it recently; it is mapped for writing (`keep`).

A copy that is larger than the free space is refused before its large files are copied. That counts a file's
size on the disk, not its length; but an engine's copy of a layer does not have holes. An engine stacks a
limited number of layers (overlayfs: about 120); before that, those above the image a session was once made
from become one (`merged`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.snapshots.checkpointer.layers import apart, contents, earlier_layer, file_entry, scan
from holdfast.snapshots.checkpointer.layers.earlier_layer import EarlierLayer
from holdfast.snapshots.checkpointer.layers.file_entry import FileEntry
from holdfast.snapshots.checkpointer.layers.scan import Identity, ScannedEntry
from holdfast.snapshots.checkpointer.wire.deadline import Deadline

# While the session runs, what changed during a pass is copied by another one, unless it is little. Bytes.
PASSES = 3
LITTLE = 16 << 20
# No single write(2) takes longer than this. Nanoseconds.
LONG_WRITE = 600 * 10**9
MOST_LARGE = 512
"""Large files that are open until all of a pass are known; more are copied together."""

Place = tuple[int, int, list[list[int]]]
"""Offset, size and holes of a file's contents in the copy."""
LARGE_FILE = 16 << 20
"""Bytes that a file takes for which room is looked for beforehand."""
IN_ENGINE = 2
"""How often an engine has a layer on its disk while it loads it: as it arrives, and unpacked."""


class LayerCopy:
    """The copy of one layer in a folder of its own.

    Used once before the freeze (`first`, `pause`), and again in it (`resume`, `last`, `save`), perhaps by
    another process.
    """

    def __init__(self, folder: Path, private: str) -> None:
        """Begin in a folder. `private` is the prefix of the overlay's own attributes."""
        self._folder = folder
        self._private = private
        self._holes_left = contents.MOST_HOLES
        self._known: dict[str, tuple[Identity, FileEntry]] = {}
        # Where the contents of a settled file are.
        self._contents: dict[Identity, Place] = {}
        self._lower: list[list[FileEntry]] = []
        self._end = 0
        self._below = EarlierLayer({})
        # What the image below has as it is: inodes of files without a copy, and names, in the last pass.
        self._uncopied: set[int] = set()
        self._same: set[str] = set()
        self._mapped: set[str] = set()

    @property
    def size(self) -> int:
        """Bytes copied so far."""
        return self._end

    def first(self, upper: Path, lowers: Sequence[Path] = (), below: Path | None = None) -> None:
        """Copy all present files, and the layers to be merged, topmost first.

        `below` is the index of the image below the copy's: its entries are not copied. The index is moved
        into the folder.

        Raises:
            Unsupported: the layers cannot be read from here.
            OSError: they cannot be read or written.
        """
        self._folder.mkdir(mode=0o700)
        (self._folder / file_entry.DATA).touch(mode=0o600)
        if below is not None:
            below.rename(self._folder / file_entry.BELOW)
            self._below = EarlierLayer.read(self._folder / file_entry.BELOW)
        for number, lower in enumerate(reversed(lowers)):
            self._lower.append(self._pass(lower, f"{number}:", set()))
        self._known = self._below.entries()
        for _ in range(PASSES):
            before = self._end
            self._pass(upper, "", set())
            if self._end - before < LITTLE:
                break

    def last(self, upper: Path, mapped: Iterable[str], deadline: Deadline | None = None) -> None:
        """Copy changed files again; then the copy is complete.

        Raises:
            Passed: it took longer than the deadline. None: there is none.
            Unsupported, OSError: as `first`.
        """
        self._mapped = set(mapped)
        self._pass(upper, "", self._mapped, deadline)

    def pause(self) -> None:
        """Record the state, so that `resume` can continue with it.

        Names that the image below has as they are need no record besides its index.
        """
        changed = [
            (identity, item)
            for path, (identity, item) in self._known.items()
            if path not in self._same or not self._below.says(path, identity)
        ]
        facts = {
            "end": self._end,
            "identities": [list(identity) for identity, _ in changed],
            "holes": self._holes_left,
            "contents": [[list(identity), *where] for identity, where in self._contents.items()],
            "lower": [[file_entry.as_fields(item) for item in layer] for layer in self._lower],
        }
        file_entry.write(self._folder / file_entry.FIRST, [item for _, item in changed], **facts)

    def resume(self) -> None:
        """Continue from the record of `pause`."""
        entries, facts = file_entry.read(self._folder / file_entry.FIRST)
        self._end = facts["end"]
        self._below = EarlierLayer.read(self._folder / file_entry.BELOW)
        self._known = self._below.entries()
        for item, identity in zip(entries, facts["identities"], strict=True):
            self._known[item.path] = (tuple(identity), item)
        self._holes_left = facts["holes"]
        self._contents = {tuple(identity): tuple(where) for identity, *where in facts["contents"]}
        self._lower = [[FileEntry(**fields) for fields in layer] for layer in facts["lower"]]

    def has(self, path: str) -> bool:
        """Check whether a name of the layer was copied; the path is relative to its folder."""
        return path in self._known

    def sockets(self) -> dict[int, list[str]]:
        """Return the names of sockets in the layer, by the number of their inode there."""
        found: dict[int, list[str]] = {}
        for _, item in self._known.values():
            if item.kind == file_entry.SOCKET:
                found.setdefault(int(item.group), []).append(item.path)
        return found

    def save(self) -> None:
        """Record the copied layer, and for the next copy, the contents of an image made of it."""
        earlier_layer.write_index(self._folder / file_entry.INDEX, self._known, self._mapped)
        top = self._below.difference(self._known, self._same)
        file_entry.write(
            self._folder / file_entry.ENTRIES,
            merged([*self._lower, top.entries]) if self._lower else top.entries,
            **{file_entry.LEFT: top.left, file_entry.OMITTED: top.omitted},
        )

    def _pass(
        self, layer: Path, group: str, mapped: set[str], deadline: Deadline | None = None
    ) -> list[FileEntry]:
        found: dict[str, tuple[Identity, FileEntry]] = {}
        # What was kept of the layers below is kept as long as this one.
        budget = scan.ScanBudget(sum(map(len, self._lower)))

        def check() -> None:
            if deadline is not None:
                deadline.check("to copy its files")

        folder = os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        data = os.open(self._folder / file_entry.DATA, os.O_WRONLY | os.O_CLOEXEC)
        large: list[_Large] = []
        # By inode: files with several names are copied once.
        names: dict[int, list[FileEntry]] = {}
        self._below.begin()
        self._uncopied, self._same = set(), set()
        try:
            for seen in scan.scan(folder, self._private, self._unchanged, budget):
                check()
                item, inode = seen.entry, seen.identity[0]
                if not group and self._below.has(item, seen.identity):
                    self._same.add(item.path)
                if item.kind in file_entry.LINKED and seen.identity[2] > 1:
                    item.group = f"{group}{inode}"
                if item.kind == file_entry.FILE:
                    self._fill(seen, data, mapped, names.setdefault(inode, []), large, check)
                # What is not settled is looked at again, whatever it looks like then.
                found[item.path] = (seen.identity if seen.settled else (), item)
            check_room(self._folder, layer, [(one.seen.entry, one.seen.held) for one in large])
            for one in large:
                self._copy(one.seen, one.source, data, one.names, check)
                found[one.seen.entry.path] = (one.seen.identity if one.seen.settled else (), one.seen.entry)
        finally:
            for one in large:
                os.close(one.source)
            os.close(data)
            os.close(folder)
        if not group:
            self._known = found
            copied = names.keys() - self._uncopied
            self._same -= {item.path for inode in copied for item in names[inode]}
        return [item for _, item in found.values()]

    def _unchanged(self, path: str, identity: Identity) -> FileEntry | None:
        known = self._known.get(path)
        return known[1] if known is not None and known[0] == identity else None

    def _fill(
        self,
        seen: ScannedEntry,
        data: int,
        mapped: set[str],
        names: list[FileEntry],
        large: list[_Large],
        check: Callable[[], None],
    ) -> None:
        """Ensure that the contents of a file are copied: large ones later, when all are known.

        `names` are its names that were seen before. The image below can have it under all of these.
        """
        item, inode = seen.entry, seen.identity[0]
        is_new = not names or inode in self._uncopied
        names.append(item)
        if is_new and item.path not in mapped and item.path in self._same:
            self._uncopied.add(inode)
            return
        if not is_new and any(one.names is names for one in large):
            return
        there = self._contents.get(seen.identity) if is_new else _place(names[0])
        if there is not None and item.path not in mapped:
            self._uncopied.discard(inode)
            for name in names if is_new else (item,):
                name.offset, name.size, name.holes = there
            return
        source = _opened(seen)
        if source is None:
            item.offset, item.size, item.holes, seen.settled = self._end, 0, [], False
            return
        self._uncopied.discard(inode)
        if seen.held >= LARGE_FILE and len(large) < MOST_LARGE:
            large.append(_Large(seen, source, names))
            return
        try:
            self._copy(seen, source, data, names, check)
        finally:
            os.close(source)

    def _copy(
        self, seen: ScannedEntry, source: int, data: int, names: list[FileEntry], check: Callable[[], None]
    ) -> None:
        item = seen.entry
        quiet = scan.settled(seen.identity, LONG_WRITE) or contents.written_by_nobody(source)
        found = os.fstat(source)
        if not stat.S_ISREG(found.st_mode):
            item.offset, item.size, item.holes, seen.settled = self._end, 0, [], False
            return
        seen.identity = scan.identify(found)
        seen.settled = quiet and scan.settled(seen.identity)
        item.offset, item.size = self._end, found.st_size
        item.holes = contents.copy(source, data, item.offset, item.size, check, self._holes_left)
        self._holes_left -= len(item.holes)
        self._end += item.stored
        os.ftruncate(data, self._end)
        if seen.settled:
            self._contents[seen.identity] = _place(item)
        for name in names:
            name.offset, name.size, name.holes = _place(item)


@dataclass(frozen=True, slots=True)
class _Large:
    """A file that is still to be copied: its contents, open, and its names."""

    seen: ScannedEntry
    source: int
    names: list[FileEntry]


def _place(item: FileEntry) -> Place:
    return item.offset, item.size, item.holes


def _opened(seen: ScannedEntry) -> int | None:
    """Open a file that was seen; None if it was removed, or has become unreadable."""
    try:
        return seen.open()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
            raise
        return None


def merged(layers: Iterable[Iterable[FileEntry]]) -> list[FileEntry]:
    """Merge layers, given from the lowest to the topmost, into one; parents come before their contents."""
    found: dict[str, FileEntry] = {}
    for layer in layers:
        for item in layer:
            _put(found, item)
    return [found[path] for path in sorted(found, key=lambda path: path.split("/"))]


def _put(found: dict[str, FileEntry], item: FileEntry) -> None:
    below = found.get(item.path)
    if below is not None and (item.kind != file_entry.DIRECTORY or item.opaque):
        _cut(found, item.path)
    elif below is not None and (below.kind != file_entry.DIRECTORY or below.opaque):
        # An entry that was not a directory hid everything below it, and so does the directory in its place.
        item.opaque = True
    found[item.path] = item


def _cut(found: dict[str, FileEntry], path: str) -> None:
    inside = path + "/"
    for name in [name for name in found if name.startswith(inside)]:
        del found[name]


class CopyTooLarge(OSError):
    """There is not enough space for the copy."""


def check_room(copy: Path, engine: Path, large: Sequence[tuple[FileEntry, int]]) -> None:
    """Check that there is room for files, each given with its bytes on the disk.

    Args:
        copy: a folder on the disk on which the copy is made.
        engine: one on the disk on which the engine makes an image of it.
        large: the files.

    Raises:
        CopyTooLarge: there is not; the error names the largest file.
    """
    if not large:
        return
    here = sum(held for _, held in large)
    there = IN_ENGINE * sum(_unpacked(item, held) for item, held in large)
    if copy.stat().st_dev == engine.stat().st_dev:
        here, there = here + there, 0
    for needed, place in ((here, copy), (there, engine)):
        space = os.statvfs(place)
        if needed > (free := space.f_bavail * space.f_frsize):
            largest, held = max(large, key=lambda one: _unpacked(*one) + one[1])
            raise CopyTooLarge(
                f"{apart.shown(largest.path)} holds {held >> 20} of {largest.size >> 20} MiB; with other "
                f"large files and the image {needed >> 20} MiB are needed, and {free >> 20} MiB are free"
            )


def _unpacked(item: FileEntry, held: int) -> int:
    """Return a file's bytes in an image: all of its length, unless it is kept separately."""
    empty = max(item.size - held, 0)
    is_apart = empty >= apart.LEAST_HOLES and held <= max(empty, apart.MOST_CONTENT)
    return 0 if is_apart else item.size
