"""Reads files below a folder others may write to: no link is followed, nothing but a file is opened."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

DIGEST_SIZE = 16
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class FileTooLarge(OSError):
    """The file has more bytes than may be read."""

    def __init__(self, size: int) -> None:
        super().__init__("it is too large")
        self.size = size


def digest(folder: Path, path: str, limit: int) -> tuple[int, str]:
    """Size and digest of the regular file at an absolute path below `folder`.

    Raises:
        TooLarge: it has more than `limit` bytes.
        OSError: there is none.
    """
    *folders, name = [part for part in path.split("/") if part] or ["."]
    at = os.open(folder, _FOLDER)
    try:
        for part in folders:
            if part == "..":
                raise FileNotFoundError
            below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        # A device or a FIFO must not be opened: what is there is looked at first.
        if not stat.S_ISREG(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
            raise FileNotFoundError
        descriptor = os.open(name, _FILE, dir_fd=at)
    finally:
        os.close(at)
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        if size > limit or not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileTooLarge(size)
        return size, hashlib.blake2b(file.read(limit), digest_size=DIGEST_SIZE).hexdigest()
