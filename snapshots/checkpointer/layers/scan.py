"""Finds the folders in which an overlay keeps a container's files, and lists the changes in them.

The engine's folder of layers is mounted at /layers; HOLDFAST_LAYERS names it as the host calls it. A folder
belongs to a session, which can be running and replace a directory by a link at any moment: every step is
taken from the descriptor of the folder above.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NoReturn

from holdfast.procfs import bounded, overlay_mount, walk
from holdfast.snapshots.checkpointer.layers import file_entry as entry
from holdfast.snapshots.checkpointer.layers.file_entry import FileEntry

# Names in one copy, whatever they are of: each takes up to 2 kB of memory here while the layer is copied.
MOST_FILES = 500_000
# Characters of their paths, links and attributes together.
MOST_TEXT = 256 << 20
# Deeper than any tree made in earnest; each level is an open descriptor.
DEEPEST = 400
# Bytes of a path that programs and engines can have (PATH_MAX).
LONGEST = 4095
_BLOCK = 512  # stat(2)
# Changes within one tick of the kernel's clock have the same time (10 ms at 100 Hz). Nanoseconds.
UNSETTLED = 50_000_000

OPAQUE = "opaque"
"""The attribute of a folder that hides what lower layers have below it, after what all of the overlay's own
begin with (`where.LayerFolders.private`)."""
# Renamed directories and files without contents, which only the overlay itself can put together.
_STRANGE = ("redirect", "metacopy")
# Kept; what else there is belongs to the overlay or to a security module of this host.
_KEPT = ("user.", "security.capability", "system.posix_acl_")
# The kernel's errors for a name that is gone, is not a link any more, or lost an attribute: a process put
# something else in its place just now. The next pass finds that.
_REPLACED = (errno.ENOENT, errno.EINVAL, errno.ENODATA)

Identity = tuple[int, ...]
LAYERS = Path("/layers")


class UnsupportedEntry(Exception):
    """The layer has a file that cannot be copied from outside the overlay."""


class TooManyEntries(OSError):
    """The layer has more files than are kept."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(
            f"the session has more than {what} that are not in its image, most of them in {where}"
        )


class FoldersTooDeep(OSError):
    """Folders are nested deeper than a copy can be."""

    def __init__(self, where: str) -> None:
        first = "/".join(where.split("/")[:3])
        super().__init__(f"folders are nested more than {DEEPEST} deep in '/{first[:200]}'")


class ScanBudget:
    """The part of a layer kept in memory, over all of its folders. `spent` names are kept already."""

    def __init__(self, spent: int = 0) -> None:
        self._names, self._text = spent, 0
        self._names_in: Counter[str] = Counter()
        self._text_in: Counter[str] = Counter()

    def listed(self, items: Iterable[os.DirEntry[str]], prefix: str) -> list[os.DirEntry[str]]:
        """Return the entries of a folder.

        Raises:
            TooMany: before they are examined.
        """
        found = list(islice(items, MOST_FILES - self._names + 1))
        self._names += len(found)
        self._names_in[place_of(prefix)] += len(found)
        if self._names > MOST_FILES:
            raise TooManyEntries(f"{MOST_FILES} files", _most(self._names_in))
        return found

    def kept(self, item: FileEntry, place: str) -> None:
        """Count an entry below a place (`place_of`). Raises TooMany."""
        size = len(item.path) + len(item.target)
        if item.attributes:
            size += sum(map(len, item.attributes.values()))
        self._text += size
        self._text_in[place] += size
        if self._text > MOST_TEXT:
            raise TooManyEntries(f"{MOST_TEXT >> 20} MB of names", _most(self._text_in))


def place_of(prefix: str) -> str:
    """Return the first one or two folders of a path that ends with a slash."""
    return "/".join(prefix.split("/")[:-1][:2])


def _most(counted: Counter[str]) -> str:
    return f"/{counted.most_common(1)[0][0]}"


@dataclass(slots=True)
class ScannedEntry:
    """An entry and the evidence of changes: equal settled identities are equal files.

    `open()` gives a descriptor of a regular file's contents. Whether a file is settled is only known then.
    `held` are the bytes that it takes on the disk.
    """

    entry: FileEntry
    identity: Identity
    settled: bool
    open: Callable[[], int]
    held: int


def identify(found: os.stat_result) -> Identity:
    """Inode, time of the last change, number of names, and any other evidence of such a change."""
    return (
        found.st_ino,
        found.st_ctime_ns,
        found.st_nlink,
        found.st_mtime_ns,
        found.st_size,
        found.st_mode,
        found.st_uid,
        found.st_gid,
    )


def settled(identity: Identity, least: int = UNSETTLED) -> bool:
    """Check that the last change is long enough ago (nanoseconds) for a new one to have a new time."""
    return identity[1] < time.time_ns() - least


Known = Callable[[str, Identity], FileEntry | None]


def sized(path: str, identity: Identity) -> FileEntry | None:
    """Stand for `known` where only the kinds and sizes of files are wanted."""
    is_file = stat.S_ISREG(identity[5])
    return FileEntry(path, entry.FILE, size=identity[4]) if is_file else None


@dataclass(frozen=True, slots=True)
class _Rules:
    private: str
    known: Known


def scan(folder: int, private: str, known: Known, budget: ScanBudget) -> Iterator[ScannedEntry]:
    """Yield everything below a folder given by its descriptor; parents come before their contents.

    Attributes that begin with `private` are the overlay's; others of its kind are a program's. `known`
    returns the entry a path had when its identity was the same, so that its attributes do not have to be
    read again; None if it has to be examined.

    Raises:
        Unsupported: of anything in it.
        TooMany: there is more than the budget allows.
        OSError: it cannot be read; files that vanish during this are left out.
    """
    yield from _scan(folder, "", 0, _Rules(private, known), budget)


def _scan(folder: int, prefix: str, depth: int, rules: _Rules, budget: ScanBudget) -> Iterator[ScannedEntry]:
    if depth > DEEPEST:
        _refuse_depth(prefix)
    with os.scandir(folder) as listing:
        items = budget.listed(listing, prefix)
    place = place_of(prefix)
    for item in items:
        path = prefix + item.name
        try:
            found = item.stat(follow_symlinks=False)
            seen = _look(folder, item.name, path, found, rules)
        except OSError as error:
            if error.errno not in _REPLACED:
                raise
            continue
        if seen is None:
            continue
        budget.kept(seen.entry, place)
        yield seen
        if seen.entry.kind == entry.DIRECTORY:
            yield from _below(folder, item.name, path, depth, rules, budget)


def _refuse_depth(prefix: str) -> NoReturn:
    """Leave a layer to the engine, unless that cannot make its names either."""
    if len(os.fsencode(prefix)) > LONGEST:
        raise FoldersTooDeep(prefix)
    raise UnsupportedEntry(f"directories are nested more than {DEEPEST} deep")


def _below(
    folder: int, name: str, path: str, depth: int, rules: _Rules, budget: ScanBudget
) -> Iterator[ScannedEntry]:
    try:
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        yield from _scan(below, path + "/", depth + 1, rules, budget)
    finally:
        os.close(below)


def _look(
    folder: int,
    name: str,
    path: str,
    found: os.stat_result,
    rules: _Rules,
) -> ScannedEntry | None:
    identity = identify(found)
    made = rules.known(path, identity)
    if made is None:
        kind = _kind(found)
        if kind is None:
            return None
        made = FileEntry(path, kind)
        if kind != entry.WHITEOUT:
            _describe(made, folder, name, found, rules.private)
    held = found.st_blocks * _BLOCK
    return ScannedEntry(made, identity, settled(identity), lambda: _open(folder, name), held)


def _describe(made: FileEntry, folder: int, name: str, found: os.stat_result, private: str) -> None:
    made.mode, made.uid, made.gid = stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid
    made.mtime = found.st_mtime_ns
    if made.kind == entry.FILE:
        made.size = found.st_size
    elif made.kind == entry.LINK:
        made.target = os.readlink(name, dir_fd=folder)
    elif made.kind in (entry.CHARACTER, entry.BLOCK):
        made.device = found.st_rdev
    elif made.kind == entry.SOCKET:
        made.group = str(found.st_ino)
    # There is no listxattr for a name in a folder; the last step of this path is not followed.
    here = f"/proc/self/fd/{folder}/{name}"
    for attribute in os.listxattr(here, follow_symlinks=False):
        own = attribute.removeprefix(private)
        if own != attribute:
            if own == OPAQUE:
                made.opaque = os.getxattr(here, attribute, follow_symlinks=False) == b"y"
            elif own in _STRANGE:
                raise UnsupportedEntry(
                    "the overlay keeps renamed directories in a way only the overlay can read"
                )
        elif attribute.startswith(_KEPT):
            value = os.getxattr(here, attribute, follow_symlinks=False)
            made.attributes[attribute] = value.decode("latin-1")


def _kind(found: os.stat_result) -> str | None:
    mode = found.st_mode
    if stat.S_ISREG(mode):
        return entry.FILE
    if stat.S_ISDIR(mode):
        return entry.DIRECTORY
    if stat.S_ISLNK(mode):
        return entry.LINK
    if stat.S_ISFIFO(mode):
        return entry.FIFO
    if stat.S_ISCHR(mode):
        return entry.CHARACTER if found.st_rdev else entry.WHITEOUT
    if stat.S_ISBLK(mode):
        return entry.BLOCK
    return entry.SOCKET if stat.S_ISSOCK(mode) else None


def _open(folder: int, name: str) -> int:
    # Not blocking: what was a file a moment ago may be a pipe now.
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)


@dataclass(frozen=True, slots=True)
class LayerFolders:
    """The folder a container writes to, and its image's folders, the topmost first.

    `private` is the prefix of the attributes in which the overlay keeps its own state.
    """

    upper: Path
    lowers: tuple[Path, ...]
    private: str


def layers_of(init_pid: int) -> LayerFolders | None:
    """Return the layers of a container; None if its files are stored differently, or not visible."""
    there = os.environ.get("HOLDFAST_LAYERS", "")
    if not there:
        return None
    return find_layers(bounded.read(Path(f"/proc/{init_pid}/mountinfo"), walk.MAX_TEXT), there, LAYERS)


def find_layers(mountinfo: bytes, there: str, here: Path) -> LayerFolders | None:
    """Look for the overlay mounted at the root; folders below `there` are found below `here`."""
    prefix = there.rstrip("/") + "/"
    folders = overlay_mount.folders(mountinfo)
    if folders is None or not all(path.startswith(prefix) for path in folders):
        return None
    top, *rest = [here / path.removeprefix(prefix) for path in folders]
    return LayerFolders(top, tuple(rest), overlay_mount.private(mountinfo))
