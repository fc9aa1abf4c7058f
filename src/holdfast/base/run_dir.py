"""Access to the folder that a session shares with the host, without trusting its contents.

The guest may put links, pipes or folders there under any name. Everything is therefore opened relative to
the folder without following links, and written as a new file that is renamed into place.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice

from holdfast.errors import GuestDisconnected, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from pathlib import Path
    from typing import Any


@contextmanager
def opened(path: Path | str) -> Iterator[int]:
    """Open the folder and yield its descriptor."""
    descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_json(path: Path, name: str, content: Mapping[str, Any]) -> None:
    """Write a file into the folder atomically.

    Raises:
        StoreError: the file cannot be written.
    """
    import json

    new = f".{name}.{os.urandom(6).hex()}"
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


def connect(path: Path | str, name: str, timeout: float | None) -> socket.socket:
    """Connect to the unix socket of this name in the folder.

    The file is opened first and the connection made through its descriptor: it cannot be swapped for a link
    to another socket of the host, and the limit of 108 bytes for paths does not apply.

    Raises:
        GuestDisconnected: nothing listens there.
    """
    import socket

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
    """Check whether the folder has an entry of that name, which must not contain a slash."""
    if "/" in name or "\0" in name or not name.isascii():
        return False
    try:
        with opened(path) as folder:
            os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def names(path: Path, most: int) -> list[str]:
    """List the names of at most `most` entries of the folder; none if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        with os.scandir(descriptor) as listing:
            return [item.name for item in islice(listing, most)]
    finally:
        os.close(descriptor)
