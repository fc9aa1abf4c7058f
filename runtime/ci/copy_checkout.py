"""Copies a checkout into a session, as the files of the session's user."""

from __future__ import annotations

import io
import tarfile
import tempfile
import time
from typing import IO, TYPE_CHECKING

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.guest import layout

if TYPE_CHECKING:
    from pathlib import Path

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
        for name, path in checkout.entries:
            try:
                member = archive.gettarinfo(str(path), name)
                # Of two hard links to one file, only one may be among the entries.
                if member.islnk():
                    member.type, member.linkname, member.size = tarfile.REGTYPE, "", path.stat().st_size
                if owned(member) is None:
                    continue
                if member.isreg():
                    with path.open("rb") as source:
                        archive.addfile(member, source)
                else:
                    archive.addfile(member)
                count += 1
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
