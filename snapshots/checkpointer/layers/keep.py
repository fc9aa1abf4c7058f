"""Keeps the files of a container in a staging folder: before it is frozen, and while it is."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from holdfast.snapshots.checkpointer.ground import folders, tree
from holdfast.snapshots.checkpointer.layers import file_entry, mapped, scan, where
from holdfast.snapshots.checkpointer.layers.copy import LayerCopy
from holdfast.snapshots.checkpointer.layers.scan import Unsupported
from holdfast.snapshots.checkpointer.wire.deadline import Deadline


def begin(init_pid: int, folder: str, flatten: int) -> bool:
    """Copy what is there now. False if the files can only be kept by the engine; then nothing remains.

    Raises:
        OSError: they cannot be read or written.
    """
    # Sent to the holder of a lease when a process wants to write; it is given back at once anyway.
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    found = where.layers(init_pid)
    if found is None:
        return False
    copy = LayerCopy(_folder(folder), found.private)
    try:
        # The topmost layer is the engine's own, for the files it mounts into the container.
        copy.first(found.upper, found.lowers[1 : 1 + flatten])
        copy.pause()
    except Unsupported:
        folders.discard_staging(folder, file_entry.FOLDER)
        return False
    return True


@dataclass(slots=True)
class LayerSize:
    """What a container wrote: how many files, how long they are, and how much they take on the disk.

    `fault` says why it cannot be copied; it may be empty.
    """

    files: int = 0
    length: int = 0
    held: int = 0
    fault: str = ""


def measure(init_pid: int) -> LayerSize:
    """Measure what a copy would have to copy; nothing where layers cannot be read."""
    size = LayerSize()
    found = where.layers(init_pid)
    if found is None:
        return size
    once: set[int] = set()
    folder = os.open(found.upper, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for seen in scan.scan(folder, found.private, lambda *_: None, scan.Budget()):
            if seen.entry.kind == file_entry.FILE and seen.identity[0] not in once:
                once.add(seen.identity[0])
                size.files, size.length = size.files + 1, size.length + seen.entry.size
                size.held += seen.held
    except Unsupported:
        pass
    except OSError as error:
        size.fault = str(error)
    finally:
        os.close(folder)
    return size


def begun(init_pid: int, folder: str) -> LayerCopy | None:
    """Return what `begin` copied, to continue with; None if it did not."""
    if not (_folder(folder) / file_entry.FIRST).exists():
        return None
    found = where.layers(init_pid)
    if found is None:
        raise OSError("the container's files are no longer where they were")
    copy = LayerCopy(_folder(folder), found.private)
    copy.resume()
    return copy


def complete(copy: LayerCopy, init_pid: int, deadline: Deadline) -> None:
    """Copy what has changed since, while nothing in the container runs.

    Raises:
        Passed: the deadline has.
        OSError: the files cannot be read or written.
    """
    found = where.layers(init_pid)
    if found is None:
        raise OSError("the container's files are no longer where they were")
    try:
        copy.last(found.upper, mapped.mapped(tree.tree(init_pid)), deadline)
    except Unsupported as error:
        raise OSError(str(error)) from error


def _folder(folder: str) -> Path:
    staging = folders.staging(folder)
    staging.mkdir(mode=0o700, exist_ok=True)
    return staging / file_entry.FOLDER
