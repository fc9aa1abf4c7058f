"""Digests of files in the layers of a snapshot's image: their content at the freeze, whatever came later.

It needs the rights of root on this host and layers of overlay2, like `overlay`. The layers were under the
session's control: no link in them is followed. Reading is bounded, and what is skipped is said.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from holdfast.snapshots.record import OpenFile

MAX_FILE = 2 << 20
MAX_TOTAL = 8 << 20
"""Bytes: a restore reads as much again while the session stands still, about 10 ms."""
MAX_FILES = 256
DIGEST_SIZE = 16
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def digests(paths: Iterable[str], layers: Sequence[Path], elsewhere: Iterable[str]) -> list[OpenFile]:
    """What is known of each path.

    Args:
        paths: absolute paths in the session, without links.
        layers: the folders of the image's layers, the topmost first; none if unknown.
        elsewhere: folders of the session that are not in the image.
    """
    places = tuple(place.rstrip("/") for place in elsewhere)
    room = MAX_TOTAL
    found: list[OpenFile] = []
    for path in sorted(set(paths))[:MAX_FILES]:
        if any(path == place or path.startswith(f"{place}/") for place in places):
            found.append(OpenFile(path=path, skipped="it is not in the snapshot's image"))
            continue
        one = _digest(path, layers, min(MAX_FILE, room))
        if one.digest:
            room -= one.size
        found.append(one)
    return found


def _digest(path: str, layers: Sequence[Path], room: int) -> OpenFile:
    for layer in layers:
        try:
            descriptor = _open(layer, path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return OpenFile(path=path, skipped=f"it cannot be read ({error.strerror})")
        try:
            return _of(path, descriptor, room)
        except OSError as error:
            return OpenFile(path=path, skipped=f"it cannot be read ({error.strerror})")
        finally:
            os.close(descriptor)
    return OpenFile(path=path, skipped="it is not in a layer that can be read here")


def _of(path: str, descriptor: int, room: int) -> OpenFile:
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode):
        return OpenFile(path=path, skipped="it is no regular file")
    if state.st_size > room:
        return OpenFile(path=path, size=state.st_size, skipped="it is too large")
    with open(descriptor, "rb", closefd=False) as file:
        data = hashlib.blake2b(file.read(room + 1), digest_size=DIGEST_SIZE).hexdigest()
    return OpenFile(path=path, size=state.st_size, digest=data)


def _open(layer: Path, path: str) -> int:
    """Open a file below a layer, folder by folder."""
    *folders, name = [part for part in path.split("/") if part] or ["."]
    at = os.open(layer, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in folders:
            if part == "..":
                raise FileNotFoundError
            below = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = below
        # A device or a FIFO must not be opened: what is there is looked at first.
        if not stat.S_ISREG(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
            raise FileNotFoundError
        return os.open(name, _FLAGS, dir_fd=at)
    finally:
        os.close(at)
