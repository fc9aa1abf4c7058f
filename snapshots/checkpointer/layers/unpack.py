"""Unpacks an archive of a session's files below one folder only.

The archive is the session's own work, and so are the names in it. Every folder on the way is opened beneath
the root, without following a link; files are only created, never opened if they exist. Knows nothing of
containers: it is given two descriptors.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, BinaryIO

from holdfast.snapshots.checkpointer.ground import beneath

_XATTR = "SCHILY.xattr."
# What a plain session may set. Others are of security modules, or need more rights than a session has.
_KEPT = "user."
_MODE = 0o7777


def unpack(archive: BinaryIO, root: int) -> None:
    """Make everything that is in `archive` (tar, uncompressed) below the folder `root`.

    Attributes of folders are set last: they may forbid to write, and writing changes their times.

    Raises:
        OSError: a name leads out, is there already, or cannot be made.
        tarfile.TarError: it is not an archive.
    """
    try:
        _unpack(archive, root)
    except (ValueError, OverflowError, RecursionError, IndexError) as error:  # of tarfile, or of a number
        raise tarfile.ReadError(f"it has a value that no file has ({type(error).__name__})") from error


def _unpack(archive: BinaryIO, root: int) -> None:
    folders: list[tuple[str, tarfile.TarInfo]] = []
    with tarfile.open(fileobj=archive, mode="r:") as members:
        for member in members:
            members.members = []  # type: ignore[attr-defined]  # it keeps every one it has seen
            path = "/".join(part for part in member.name.split("/") if part not in ("", "."))
            if member.isdir():
                folders.append((path, member))
                if path:
                    with _parent(root, path) as (parent, name):
                        os.mkdir(name, 0o700, dir_fd=parent)
            else:
                with _parent(root, path) as (parent, name):
                    _make(archive.fileno(), member, root, parent, name)
    for path, member in reversed(folders):
        folder = beneath.opened(root, path, os.O_RDONLY | os.O_DIRECTORY, same_mount=True)
        try:
            _describe(folder, member)
        finally:
            os.close(folder)


@contextmanager
def _parent(root: int, path: str) -> Iterator[tuple[int, str]]:
    """Return the folder that contains `path`, and its name there."""
    above, _, name = path.rpartition("/")
    if name in ("", ".", ".."):
        raise OSError(f"{path[:200]!r} is not the name of a file")
    parent = beneath.opened(root, above, beneath.ROOT, same_mount=True)
    try:
        yield parent, name
    finally:
        os.close(parent)


def _make(archive: int, member: tarfile.TarInfo, root: int, parent: int, name: str) -> None:
    if member.isreg():
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
        try:
            _fill(archive, member, file)
            _describe(file, member)
        finally:
            os.close(file)
    elif member.islnk():
        with _parent(root, member.linkname.removeprefix("./")) as (other, first):
            os.link(first, name, src_dir_fd=other, dst_dir_fd=parent, follow_symlinks=False)
    elif member.issym():
        os.symlink(member.linkname, name, dir_fd=parent)
        os.chown(name, member.uid, member.gid, dir_fd=parent, follow_symlinks=False)
        _set_time(member, name, parent)
    elif member.isfifo():
        os.mkfifo(name, 0o600, dir_fd=parent)
        os.chown(name, member.uid, member.gid, dir_fd=parent, follow_symlinks=False)
        os.chmod(name, member.mode & _MODE, dir_fd=parent)
        _set_time(member, name, parent)
    else:
        raise OSError(f"{member.name[:200]!r} is of a kind that no session can make")


def _fill(archive: int, member: tarfile.TarInfo, file: int) -> None:
    """Copy the contents; what is not in the archive are holes."""
    os.ftruncate(file, member.size)
    at = member.offset_data
    for offset, size in _pieces(member):
        os.lseek(file, offset, os.SEEK_SET)
        end = at + size
        while at < end:
            sent = os.sendfile(file, archive, at, end - at)
            if sent == 0:
                raise OSError(f"the archive ends in the middle of {member.name[:200]!r}")
            at += sent


def _pieces(member: tarfile.TarInfo) -> list[tuple[int, int]]:
    """Return where in the file the archive's data belongs: offsets and sizes in bytes."""
    sparse: Any = member.sparse  # a list of pairs; None if there are no holes
    return [(0, member.size)] if sparse is None else list(sparse)


def _describe(descriptor: int, member: tarfile.TarInfo) -> None:
    for key, value in member.pax_headers.items():
        name = key.removeprefix(_XATTR)
        if name != key and name.startswith(_KEPT):
            os.setxattr(descriptor, name, value.encode("utf-8", "surrogateescape"))
    os.fchown(descriptor, member.uid, member.gid)
    os.fchmod(descriptor, member.mode & _MODE)  # after the owner, whose change takes setuid away
    _set_time(member, descriptor)


def _set_time(member: tarfile.TarInfo, which: int | str, parent: int | None = None) -> None:
    text = member.pax_headers.get("mtime")
    exact = int(Decimal(text) * 10**9) if text else int(member.mtime) * 10**9
    if isinstance(which, int):
        os.utime(which, ns=(exact, exact))
    else:
        os.utime(which, ns=(exact, exact), dir_fd=parent, follow_symlinks=False)
