"""Writing of a whole file system to its disk. Knows no engine."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path


def sync(folder: Path) -> None:
    """Wait until the file system that a folder is on is on its disk (syncfs(2)).

    Who may not open it waits for all file systems (sync(2)). A folder that is not there is passed over.

    Raises:
        OSError: something could not be written.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        os.sync()
        return
    except FileNotFoundError:
        return
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(descriptor)
