"""Zip archives unpacked into a session, without trusting their claims.

Members whose names lead out of the folder, links, devices, encrypted and exotically compressed members are
refused before anything is written; an archive can take neither much memory nor endless time.
"""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from holdfast.errors import InvalidArgument
from holdfast.runtime.files.copied import Copied
from holdfast.runtime.files.file_requests import PART, FileRequests

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MOST_DIRECTORY = 16 << 20
"""Bytes of the list of members, which is read in one piece."""
MOST_BYTES = 16 << 30
"""Bytes of all members together, unpacked."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Others could ask for gigabytes of memory."""
_ENCRYPTED = 0x1


def read(requests: FileRequests, stream: IO[bytes], to: str) -> Copied:
    """Unpack an archive into a folder of the session, which is made if it is missing.

    Permissions of files are restored where the archive has them.

    Raises:
        InvalidArgument: it is not such an archive, or too large, or has a member that is refused.
        SessionFileError: something cannot be written.
    """
    made = Copied()
    try:
        with zipfile.ZipFile(io.BufferedReader(_SparingReader(stream), 1 << 16)) as archive:
            members = [(place(each), each) for each in archive.infolist()]
            if sum(each.file_size for _, each in members) > MOST_BYTES:
                raise InvalidArgument(
                    f"cannot unpack the archive: it takes more than {MOST_BYTES >> 30} GiB unpacked"
                )
            _unpack(requests, archive, members, to.rstrip("/") or "/", made)
    except (
        zipfile.BadZipFile,
        EOFError,
        zlib.error,
        ValueError,
        OverflowError,
        NotImplementedError,
        struct.error,
    ) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(
            f"cannot unpack the archive: it is not a complete zip archive ({error})"
        ) from None
    return made


def place(member: zipfile.ZipInfo) -> str:
    """Return the path of a member within the folder; empty for the folder itself.  Pure.

    Raises:
        InvalidArgument: it leads out of the folder, or is not an ordinary member.
    """
    name = member.filename
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or name.startswith("/"):
        raise InvalidArgument(f"cannot unpack the archive: {name[:200]!r} leads out of the folder")
    kind = stat.S_IFMT(_mode(member))
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise InvalidArgument(f"cannot unpack the archive: {name[:200]!r} is neither a file nor a folder")
    if member.flag_bits & _ENCRYPTED or member.compress_type not in _METHODS:
        raise InvalidArgument(
            f"cannot unpack the archive: {name[:200]!r} is encrypted, or packed in an unusual way"
        )
    return "/".join(parts)


def _mode(member: zipfile.ZipInfo) -> int:
    return member.external_attr >> 16


def _unpack(
    requests: FileRequests,
    archive: zipfile.ZipFile,
    members: list[tuple[str, zipfile.ZipInfo]],
    to: str,
    made: Copied,
) -> None:
    requests.make_folder(to, parents=True)
    folders = {to}
    for inner, member in members:
        path = f"{to.rstrip('/')}/{inner}" if inner else to
        folder = not inner or member.is_dir()  # which fails for a name of nothing
        above = path if folder else path.rpartition("/")[0]
        if above not in folders:
            requests.make_folder(above or "/", parents=True)
            folders.add(above)
        if folder:
            made.folders += 1
            continue
        mode = _mode(member)
        with archive.open(member) as file:
            requests.write(path, _parts(file, made), mode=mode & 0o777 if stat.S_ISREG(mode) else None)
        made.files += 1


def _parts(file: IO[bytes], made: Copied) -> Iterator[bytes]:
    while data := file.read(PART):
        yield data
        made.bytes += len(data)


class _SparingReader(io.RawIOBase):
    """A file that never reads more in one call than the largest allowed list of members."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file

    def readable(self) -> bool:
        """Return true."""
        return True

    def seekable(self) -> bool:
        """Return true."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the place."""
        return self._file.tell()

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read the next bytes.

        Raises:
            InvalidArgument: they would be too many.
        """
        view = memoryview(buffer)
        if len(view) > MOST_DIRECTORY:
            raise InvalidArgument(
                f"cannot unpack the archive: its list of members has more than {MOST_DIRECTORY >> 20} MiB"
            )
        data = self._file.read(len(view))
        view[: len(data)] = data
        return len(data)
