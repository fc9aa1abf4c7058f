"""Keeps the files of a container in a staging folder: before it is frozen, and while it is.

Files that are mapped shared and writable are copied while it is frozen: such a write changes the file's
times only when its page was clean before, so they do not tell whether it has changed.

Before a session is ended, `check_copied` sees whether all files that its processes have open, mapped or stand
in are in the copy, or the image's own: what cannot be opened cannot be restored, and is only there as long as
the session runs.
"""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.procfs import bounded, walk
from holdfast.snapshots.checkpointer.ground import beneath, folders, tree
from holdfast.snapshots.checkpointer.layers import apart, file_entry, scan
from holdfast.snapshots.checkpointer.layers.copy import LayerCopy
from holdfast.snapshots.checkpointer.layers.scan import UnsupportedEntry
from holdfast.snapshots.checkpointer.record import text
from holdfast.snapshots.checkpointer.wire.deadline import Deadline

MAX_MAPPED_TEXT = 64 << 20
"""Characters of all those paths together."""
_SHARED = re.compile(rb"^[0-9a-f]+-[0-9a-f]+ .w.s [0-9a-f]+ \S+ [1-9]\d* +/(.*)$", re.MULTILINE)
_ELSEWHERE = (errno.ENOENT, errno.ENOTDIR, errno.EXDEV)
"""Gone, or on another mount: CRIU or the archive of shared memory has it."""


def begin(init_pid: int, folder: str, flatten: int) -> bool:
    """Copy the present files. False if only the engine can keep them; then nothing remains.

    Entries in the staging folder's index of an earlier image (`file_entry.BELOW`) are not copied.

    Raises:
        OSError: they cannot be read or written.
    """
    # Sent to the holder of a lease when a process wants to write; it is given back at once anyway.
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    found = scan.layers_of(init_pid)
    if found is None:
        return False
    copy = LayerCopy(_folder(folder), found.private)
    index = folders.staging(folder) / file_entry.BELOW
    try:
        # The topmost layer is the engine's own, for the files it mounts into the container.
        copy.first(found.upper, found.lowers[1 : 1 + flatten], index if index.exists() else None)
        copy.pause()
    except UnsupportedEntry:
        folders.discard_staging(folder, file_entry.FOLDER)
        return False
    return True


@dataclass(slots=True)
class LayerSize:
    """A container's written files: their number, their length, and their size on the disk.

    `fault` is the reason it cannot be copied, or empty.
    """

    files: int = 0
    length: int = 0
    held: int = 0
    fault: str = ""


def measure(init_pid: int) -> LayerSize:
    """Measure the work of a copy; nothing where layers cannot be read."""
    size = LayerSize()
    found = scan.layers_of(init_pid)
    if found is None:
        return size
    once: set[int] = set()
    folder = os.open(found.upper, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for seen in scan.scan(folder, found.private, scan.sized, scan.ScanBudget()):
            if seen.entry.kind == file_entry.FILE and seen.identity[0] not in once:
                once.add(seen.identity[0])
                size.files, size.length = size.files + 1, size.length + seen.entry.size
                size.held += seen.held
    except UnsupportedEntry:
        pass
    except OSError as error:
        size.fault = str(error)
    finally:
        os.close(folder)
    return size


def begun(init_pid: int, folder: str) -> LayerCopy | None:
    """Return the copy that `begin` made, to continue with; None if it did not."""
    if not (_folder(folder) / file_entry.FIRST).exists():
        return None
    found = scan.layers_of(init_pid)
    if found is None:
        raise OSError("the container's files have moved")
    copy = LayerCopy(_folder(folder), found.private)
    copy.resume()
    return copy


def complete(copy: LayerCopy, init_pid: int, deadline: Deadline) -> None:
    """Copy later changes, while no task of the container runs.

    Raises:
        Passed: the deadline has.
        OSError: the files cannot be read or written.
    """
    found = scan.layers_of(init_pid)
    if found is None:
        raise OSError("the container's files have moved")
    try:
        copy.last(found.upper, mapped_files(tree.tree(init_pid)), deadline)
    except UnsupportedEntry as error:
        raise OSError(str(error)) from error


def _folder(folder: str) -> Path:
    staging = folders.staging(folder)
    staging.mkdir(mode=0o700, exist_ok=True)
    return staging / file_entry.FOLDER


def mapped_files(pids: Iterable[int], proc: Path = Path("/proc")) -> set[str]:
    """Return paths, relative to the root, of files that any of these processes has mapped shared and
    writable.

    Raises:
        TooLong: they exceed the limit. Files left out would be torn in the copy.
    """
    found: set[str] = set()
    room = MAX_MAPPED_TEXT
    for pid in pids:
        try:
            for lines in bounded.lines(proc / str(pid) / "maps", walk.MAX_MAPS):
                new = parse_mapped(lines) - found
                room -= sum(map(len, new))
                if room < 0:
                    raise bounded.TooLong("memory that the session has mapped for writing", MAX_MAPPED_TEXT)
                found |= new
        except bounded.TooLong:
            raise
        except OSError:
            continue
    return found


def parse_mapped(maps: bytes) -> set[str]:
    """Parse some lines of proc_pid_maps(5) likewise."""
    if b"s " not in maps:
        return set()
    # Only a line break is escaped in there.
    return {
        path.replace(b"\\012", b"\n").decode("utf-8", "surrogateescape") for path in _SHARED.findall(maps)
    }


class NotCopied(OSError):
    """A file of a process is not in the copy."""

    def __init__(self, path: str) -> None:
        super().__init__(f"a process uses {apart.shown(path)}, but the copy lacks it")


def check_copied(
    root: Path, upper: Path | None, entries: Iterable[Any], remaps: Iterable[Any], has: Callable[[str], bool]
) -> None:
    """Check it for the entries of the images `files` and `remap-fpath`.

    Args:
        root: the session's root folder.
        upper: the folder of its layer; None if the engine copies it, which leaves reserved names out.
        entries: the open files.
        remaps: those that CRIU keeps itself.
        has: tells whether a path, relative to the root, was copied.

    Raises:
        NotCopied: one is not there.
        OSError: a folder cannot be read.
    """
    kept = {remap.orig_id for remap in remaps}
    named = ((entry.id, text(entry.reg.name).strip("/")) for entry in entries if entry.HasField("reg"))
    paths = {path for number, path in named if path and number not in kept}
    if upper is None:
        if lost := sorted(filter(apart.is_unnameable, paths)):
            raise NotCopied(lost[0])
        return
    session, layer = os.open(root, beneath.ROOT), os.open(upper, beneath.ROOT)
    try:
        for path in sorted(paths):
            if not has(path) and _is_in(session, path) and _is_in(layer, path):
                raise NotCopied(path)
    finally:
        os.close(session)
        os.close(layer)


def _is_in(folder: int, path: str) -> bool:
    try:
        os.close(beneath.opened(folder, path, os.O_PATH | os.O_NOFOLLOW, same_mount=True))
    except OSError as error:
        if error.errno not in _ELSEWHERE:
            raise
        return False
    return True
