"""The folder a session shares with the host, used without trusting what is in it.

The guest may put links, pipes or folders there under any name.  Everything is therefore opened relative to
the folder, following no link, and written by making a new file and renaming it into place.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.errors import GuestDisconnected, StoreError


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A descriptor of the folder."""
    descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_json(path: Path, name: str, content: Mapping[str, Any]) -> None:
    """Put a file into the folder in one step: a reader sees the whole of it or what was there before.

    Raises:
        StoreError: it cannot be written.
    """
    new = f".{name}.{secrets.token_hex(6)}"
    try:
        with opened(path) as folder:
            made = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
            try:
                with os.fdopen(made, "w", encoding="utf-8") as file:
                    json.dump(dict(content), file)
                os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(new, dir_fd=folder)
                raise
    except OSError as error:
        raise StoreError(f"cannot write {path / name}: {error.strerror or error}") from error


def connect(path: Path, name: str, timeout: float | None) -> socket.socket:
    """A connection to the unix socket of this name in the folder.

    A descriptor of the very file is opened first and connected to: it cannot be swapped for a link to
    another socket of the host, and its path has no limit of 108 bytes.

    Raises:
        GuestDisconnected: nothing listens there.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        with opened(path) as folder:
            file = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                if not stat.S_ISSOCK(os.fstat(file).st_mode):
                    raise GuestDisconnected(
                        "cannot reach the session: its socket was replaced by something else"
                    )
                connection.connect(f"/proc/self/fd/{file}")
            finally:
                os.close(file)
    except BaseException as error:
        connection.close()
        if isinstance(error, OSError) and not isinstance(error, GuestDisconnected):
            raise GuestDisconnected(f"cannot reach the session: {error.strerror or error}") from error
        raise
    return connection


def holds(path: Path, name: str) -> bool:
    """Whether there is something of that name, which has no slash in it, in the folder."""
    if "/" in name or "\0" in name or not name.isascii():
        return False
    try:
        with opened(path) as folder:
            os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def names(path: Path, most: int) -> list[str]:
    """The names of at most so many files in the folder; none if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        with os.scandir(descriptor) as listing:
            return [item.name for item in islice(listing, most)]
    finally:
        os.close(descriptor)
