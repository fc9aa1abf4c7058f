"""Copies a checkout into a session, as the files of the session's user."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import tempfile
import time
from typing import IO, TYPE_CHECKING

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.guest import layout

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from tarfile import TarInfo

    from holdfast.engine.engine import Engine
    from holdfast.runtime.ci.checkout import Checkout


def identity(passwd: bytes, user: str | None) -> tuple[int, int]:
    """Return the numbers of a session's user by its passwd file; root if it has none of its own.

    Raises:
        InvalidArgument: there is no such user.
    """
    if user is None:
        return 0, 0
    rows = [line.split(":") for line in passwd.decode("utf-8", "replace").splitlines()]
    known = {row[i]: row for row in rows if len(row) >= 4 and row[2].isdigit() for i in (2, 0)}
    name, _, group = user.partition(":")
    row = known.get(name)
    if group.isdigit() and name.isdigit():
        return int(name), int(group)
    if row is not None:
        return int(row[2]), int(row[3])
    if name.isdigit():
        return int(name), 0
    raise InvalidArgument(f"cannot use user {plain(user, 40)}: the session's image has none of that name")


def pack(checkout: Checkout, file: IO[bytes], owner: tuple[int, int]) -> int:
    """Write a checkout as an archive; return the number of entries.

    A file that vanishes meanwhile is left out, as if it had gone before.

    Raises:
        StoreError: one cannot be read.
    """
    count = 0

    def owned(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        member.uid, member.gid = owner
        member.uname = member.gname = ""
        return member if member.isreg() or member.isdir() or member.issym() else None

    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in _folders(checkout):
            member = tarfile.TarInfo(name)
            member.type, member.mode, member.mtime = tarfile.DIRTYPE, 0o755, int(time.time())
            archive.addfile(owned(member) or member)
        with BeneathFolders(checkout.bases) as folders:
            for name, path in checkout.entries:
                try:
                    count += _add(archive, folders, name, path, owned)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise StoreError(
                        f"cannot check out {plain(str(path), 200)}: {error.strerror or error}"
                    ) from error
        for name, data in checkout.texts.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.mtime = len(data), 0o644, int(time.time())
            archive.addfile(owned(member) or member, io.BytesIO(data))
            count += 1
    return count


def _add(
    archive: tarfile.TarFile,
    folders: BeneathFolders,
    name: str,
    path: Path,
    owned: Callable[[TarInfo], TarInfo | None],
) -> bool:
    """Add a file, a link or a folder as it is; return whether it is one of these.

    Raises:
        OSError: it cannot be read, or a link has come into the way to it.
    """
    parent = folders.parent(path)
    told = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
    member = tarfile.TarInfo(name)
    member.mode, member.mtime = stat.S_IMODE(told.st_mode), told.st_mtime
    if stat.S_ISLNK(told.st_mode):
        member.type, member.linkname = tarfile.SYMTYPE, os.readlink(path.name, dir_fd=parent)
        archive.addfile(owned(member) or member)
    elif stat.S_ISDIR(told.st_mode):
        member.type = tarfile.DIRTYPE
        archive.addfile(owned(member) or member)
    elif stat.S_ISREG(told.st_mode):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(path.name, flags, dir_fd=parent), "rb") as source:
            now = os.fstat(source.fileno())
            if not stat.S_ISREG(now.st_mode):
                return False
            member.size = now.st_size
            archive.addfile(owned(member) or member, source)
    else:
        return False
    return True


class BeneathFolders:
    """Opens folders beneath some others, following no link on the way. The last one stays open."""

    def __init__(self, bases: tuple[Path, ...]) -> None:
        self._bases = sorted(bases, key=lambda base: len(base.parts), reverse=True)
        self._last: tuple[Path | None, int] = (None, -1)

    def __enter__(self) -> BeneathFolders:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def parent(self, path: Path) -> int:
        """Return the folder that a path is in, as a descriptor that is valid until the next call.

        Raises:
            OSError: there is none, or a link leads there.
        """
        folder = path.parent
        if self._last[0] == folder:
            return self._last[1]
        self._close()
        base = next((base for base in self._bases if path.is_relative_to(base)), None)
        if base is None:
            raise OSError(None, "it is outside of the checkout", str(path))
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        at = os.open(base, flags)
        for part in folder.relative_to(base).parts:
            try:
                inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=at)
            except NotADirectoryError as error:
                raise FileNotFoundError(error.errno, error.strerror, str(path)) from error
            finally:
                os.close(at)
            at = inner
        self._last = (folder, at)
        return at

    def _close(self) -> None:
        if self._last[1] >= 0:
            os.close(self._last[1])
        self._last = (None, -1)


def put(engine: Engine, container: str, checkout: Checkout, owner: tuple[int, int], staging: Path) -> int:
    """Copy a checkout into the workspace of a session's container; return the number of entries.

    Raises:
        StoreError, EngineError: it cannot be read or copied.
    """
    with tempfile.TemporaryFile(dir=staging) as file:
        try:
            count = pack(checkout, file, owner)
        except OSError as error:
            raise StoreError(f"cannot check out: {error.strerror or error}") from error
        file.seek(0)
        engine.files.unpack(container, str(layout.WORKSPACE), file, "put the checkout into the session")
    return count


def _folders(checkout: Checkout) -> list[str]:
    """Yield the parent folders of files that are not entries, so that they also get the right owner."""
    known = {name for name, _ in checkout.entries}
    found = {"."}
    for name in [*known, *checkout.texts]:
        parts = name.split("/")[:-1]
        found |= {"/".join(parts[: i + 1]) for i in range(len(parts))}
    return sorted(found - known)
