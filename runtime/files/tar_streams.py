"""Files of a session as a tar stream, in both directions.

Links, owners, modes and times travel as tar has them, times to the nanosecond as pax(1) has them; owners are
not restored. A member whose name leads out of the folder is refused, a hard link and a device are left out.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import IO, cast

from holdfast.base.bounded_tar import BoundedTar, PlainStream
from holdfast.errors import InvalidArgument
from holdfast.runtime.files.copied import MOST_NAMED, Copied
from holdfast.runtime.files.file_requests import PART, FileRequests
from holdfast.runtime.files.session_file import SessionFile

SECOND = 10**9
_RANGE = range(-(2**62), 2**63)
"""Nanoseconds since 1970 that a file can have."""
ACCOUNT = b"H"
"""The type of a last member, in which the counts are, and what was left out. Readers other than ours never
get one."""


def stamp(member: tarfile.TarInfo, mtime_ns: int) -> None:
    """Give a member its time."""
    member.mtime = mtime_ns // SECOND
    if part := mtime_ns % SECOND:
        whole, part = (
            (mtime_ns // SECOND, part) if mtime_ns >= 0 else (-mtime_ns // SECOND, -mtime_ns % SECOND)
        )
        sign = "-" if mtime_ns < 0 else ""
        member.pax_headers = {"mtime": f"{sign}{whole}.{part:09d}"}


def modified_ns(member: tarfile.TarInfo) -> int:
    """Return the time of a member; 0 if the member's value is not a time."""
    try:
        found = (
            Decimal(member.pax_headers["mtime"]) if "mtime" in member.pax_headers else Decimal(member.mtime)
        )
    except InvalidOperation:
        return 0
    if not found.is_finite() or abs(found) > 2**34:
        return 0
    nanoseconds = int(found * SECOND)
    return nanoseconds if nanoseconds in _RANGE else 0


def write(
    requests: FileRequests, path: str, found: SessionFile, stream: IO[bytes], *, account: bool = False
) -> Copied:
    """Write a file, or a folder with its contents, to a stream; with `account`, the counts at its end.

    Raises:
        SessionFileError, ProtocolError: something cannot be read.
        OSError: the stream cannot be written.
    """
    made = Copied()
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT, encoding="utf-8") as tar:
        if found.kind == "file":
            size = found.size or requests.read(path, 0, PART)[1]  # one of proc(5) claims to be empty
            _add(requests, tar, path, replace(found, size=size), found.name, made)
        else:
            _add_folder(requests, tar, path, "", made)
        if account:
            told = made.as_dict() | {"changed": made.changed[:MOST_NAMED]}
            data = json.dumps(told).encode()
            last = tarfile.TarInfo("account")
            last.type, last.size = ACCOUNT, len(data)
            tar.addfile(last, io.BytesIO(data))
    return made


def _add_folder(requests: FileRequests, tar: tarfile.TarFile, path: str, inside: str, made: Copied) -> None:
    left = [(path, inside)]
    while left:
        folder, prefix = left.pop()
        for found in requests.content(folder):
            inner, name = f"{folder.rstrip('/')}/{found.name}", f"{prefix}{found.name}"
            _add(requests, tar, inner, found, name, made)
            if found.kind == "folder":
                left.append((inner, f"{name}/"))


def _add(
    requests: FileRequests, tar: tarfile.TarFile, path: str, found: SessionFile, name: str, made: Copied
) -> None:
    member = tarfile.TarInfo(name)
    member.mode, member.uid, member.gid = found.mode & 0o777, found.uid, found.gid
    stamp(member, found.mtime_ns)
    if found.kind == "file":
        member.size = found.size
        tar.addfile(member, io.BufferedReader(_SessionContent(requests, path, found, made), PART))
        made.files += 1
    elif found.kind == "folder":
        member.type = tarfile.DIRTYPE
        tar.addfile(member)
        made.folders += 1
    elif found.kind == "link":
        member.type, member.linkname = tarfile.SYMTYPE, found.target or ""
        tar.addfile(member)
        made.links += 1
    else:
        made.leave_out(path, "neither file, folder nor link")


class _SessionContent(io.RawIOBase):
    """The content of a file: as many bytes as announced, with zeros if it has become shorter."""

    def __init__(self, requests: FileRequests, path: str, found: SessionFile, made: Copied) -> None:
        super().__init__()
        self._requests, self._path, self._found, self._made = requests, path, found, made
        self._offset = 0

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: object) -> int:
        """Read the next bytes."""
        view = memoryview(buffer)  # type: ignore[arg-type]
        wanted = min(len(view), self._found.size - self._offset)
        if wanted <= 0:
            return 0
        data, _, version = self._requests.read(self._path, self._offset, wanted, follow=False)
        if version != self._found.version and self._path not in self._made.changed:
            self._made.changed.append(self._path)
        data = data or bytes(min(wanted, PART))
        view[: len(data)] = data
        self._offset += len(data)
        self._made.bytes += len(data)
        return len(data)


def read(requests: FileRequests, stream: IO[bytes], to: str) -> Copied:
    """Unpack a stream into a folder of the session, which is made if it is missing.

    Raises:
        InvalidArgument: it is not a tar stream, or a member leads out of the folder; earlier ones
            are there.
        SessionFileError: something cannot be written.
    """
    made = Copied()
    folders: set[str] = set()
    try:
        plain = PlainStream(stream)
        tar = BoundedTar(cast("IO[bytes]", plain))
        for member in tar:
            if not folders:
                _begin(requests, to, member)
                folders.add(to.rstrip("/") or "/")
            _unpack(requests, tar, member, to, folders, made, plain)
        if not folders:
            requests.make_folder(to, parents=True)
    except tarfile.TarError as error:
        raise InvalidArgument(
            f"cannot unpack the input: it is not a complete tar stream ({error})"
        ) from error
    return made


def _begin(requests: FileRequests, to: str, first: tarfile.TarInfo) -> None:
    """Make the folder, with the stream's permissions for it if the stream begins with those."""
    if first.isdir() and first.name in (".", "./"):
        above, slash, _ = to.rstrip("/").rpartition("/")
        requests.make_folder(above or slash or ".", parents=True)
        requests.make_folder(to, mode=_folder_mode(first))
    else:
        requests.make_folder(to, parents=True)


def _folder_mode(member: tarfile.TarInfo) -> int:
    """Return permissions with which the folder can be filled."""
    return (member.mode & 0o777) | 0o700


def _unpack(
    requests: FileRequests,
    tar: BoundedTar,
    member: tarfile.TarInfo,
    to: str,
    folders: set[str],
    made: Copied,
    plain: PlainStream,
) -> None:
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    if ".." in parts or member.name.startswith("/"):
        raise InvalidArgument(f"cannot unpack the input: {member.name[:200]!r} leads out of the folder")
    place = "/".join([to.rstrip("/"), *parts])
    above = place.rpartition("/")[0] or "/"
    if above not in folders and parts:
        requests.make_folder(above, parents=True)
        folders.add(above)
    if member.isdir() and parts and place not in folders:
        requests.make_folder(place, mode=_folder_mode(member))
        folders.add(place)
    if member.isdir():
        made.folders += bool(parts)
    elif member.isreg():
        file = tar.content(member)
        assert file is not None
        requests.write(
            place, _parts(file, made, plain), mode=member.mode & 0o777, mtime_ns=modified_ns(member)
        )
        made.files += 1
    elif member.issym():
        requests.make_link(place, member.linkname)
        made.links += 1
    else:
        made.leave_out(member.name, "a hard link" if member.islnk() else "neither file, folder nor link")


def _parts(file: IO[bytes], made: Copied, plain: PlainStream) -> Iterator[bytes]:
    while data := file.read(PART):
        yield data
        made.bytes += len(data)
        plain.check(made.bytes)  # holes were not sent
