"""Creation and replacement of files of a home: readable by the owner only, whatever the umask."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import BinaryIO

MODE = 0o600


def create(path: Path, *, new: bool = False) -> BinaryIO:
    """Open a file to write and read it from its beginning; with `new` it must not exist yet.

    Raises:
        OSError: it cannot be opened.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (os.O_EXCL if new else os.O_TRUNC)
    return os.fdopen(os.open(path, flags, MODE), "w+b")


def append(path: Path, data: bytes) -> None:
    """Write to the end of a file, which is made if it is missing, and wait until it is on the disk.

    Raises:
        OSError: it cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, MODE)
    try:
        os.write(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(
    path: Path, data: bytes | str, *, durable: bool = True, mode: int = MODE, owner: int | None = None
) -> None:
    """Replace a file's content in one step; with `durable` it is on the disk on return.

    `mode` and `owner` (a uid) are for files that others are meant to read.

    Raises:
        OSError: it cannot be written.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with create(part, new=True) as file:
            file.write(data.encode() if isinstance(data, str) else data)
            if owner is not None:
                os.fchown(file.fileno(), owner, -1)
            if mode != MODE:
                os.fchmod(file.fileno(), mode)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk (fsync(2)).

    Raises:
        OSError: the folder cannot be synced.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
