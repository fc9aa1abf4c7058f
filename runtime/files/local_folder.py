"""Makes files, folders and links in one folder of this machine, as a session describes them.

The session's statements are not trusted: folders are opened without following links, files are made new and
renamed, and links are made only if they stay below the copy.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
DEEPEST = 200
"""Folders within folders; more is taken for a trap."""


class LocalFolder:
    """A folder that is open for the block; a subfolder is reached without following a link."""

    def __init__(self, path: str | Path, above: LocalFolder | None = None) -> None:
        flags, inside = (_FOLDER & ~os.O_NOFOLLOW, None) if above is None else (_FOLDER, above._descriptor)
        self._allowed: int = _allowed_mode() if above is None else above._allowed
        self._descriptor: int = os.open(path, flags, dir_fd=inside)

    def __enter__(self) -> LocalFolder:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def make_folder(self, name: str) -> None:
        """Make a folder, for its owner alone; one that exists stays."""
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=self._descriptor)

    def change_mode(self, mode: int) -> None:
        """Give the folder its permissions, less those that the umask takes away."""
        os.fchmod(self._descriptor, mode & self._allowed)

    def open_file(self, name: str) -> int:
        """Return a descriptor to read a file of the folder; refuse a link."""
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._descriptor)

    @contextmanager
    def new_file(self, name: str, mode: int, mtime_ns: int) -> Iterator[int]:
        """Yield the descriptor of a new file, which takes its name when the block ends without an error."""
        part = f".{secrets.token_hex(8)}.part"
        descriptor = os.open(part, _NEW, 0o600, dir_fd=self._descriptor)
        try:
            try:
                yield descriptor
                os.fchmod(descriptor, mode & self._allowed)
                os.utime(descriptor, ns=(mtime_ns, mtime_ns))
            finally:
                os.close(descriptor)
            os.rename(part, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except BaseException:
            with suppress(OSError):
                os.unlink(part, dir_fd=self._descriptor)
            raise

    def make_link(self, name: str, target: str) -> None:
        """Make a link, or replace the entry of its name. The caller has checked its target."""
        part = f".{secrets.token_hex(8)}.part"
        os.symlink(target, part, dir_fd=self._descriptor)
        try:
            os.rename(part, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except OSError:
            os.unlink(part, dir_fd=self._descriptor)
            raise


def write_at(descriptor: int, data: bytes, offset: int) -> None:
    """Write bytes at an offset; zeros are left as holes."""
    if data.count(0) == len(data):
        return
    view = memoryview(data)
    while view:
        count = os.pwrite(descriptor, view, offset)
        view, offset = view[count:], offset + count


def stays_below(target: str, above: tuple[str, ...]) -> bool:
    """Check that a link in the folder `above` of a copy leads to a place in the copy. Pure.

    Every link of a copy stays below on its own, so that several of them together do not lead out either.
    """
    if not target or target.startswith("/"):
        return False
    depth, named = len(above), False
    for part in target.split("/"):
        if part == "..":
            depth -= 1
            # `link/..` leaves from where the link leads, which may be higher than it seems.
            if named or depth < 0:
                return False
        elif part not in ("", "."):
            named = True
    return True


def _allowed_mode() -> int:
    """Return the permissions that this process's umask allows.

    umask(2) could only be asked by changing it for all threads.
    """
    status = Path("/proc/self/status").read_text()
    umask = int(next(line.split()[1] for line in status.splitlines() if line.startswith("Umask:")), 8)
    return 0o777 & ~umask
