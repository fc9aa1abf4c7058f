"""Trees of files on this machine as tar streams: packed in parts as they are wanted, unpacked in one folder.

Packing follows the rules of `copy_files.py`. A session's stream is trusted as little as the session itself:
see `local_folder.py`.
"""

from __future__ import annotations

import json
import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from holdfast.base.bounded_tar import BoundedTar
from holdfast.errors import InvalidArgument, ProtocolError
from holdfast.runtime.files import tar_streams
from holdfast.runtime.files.copied import Copied
from holdfast.runtime.files.copy_files import LEADS_OUT, local_entries, opened
from holdfast.runtime.files.file_requests import PART
from holdfast.runtime.files.local_folder import DEEPEST, LocalFolder, stays_below, write_at
from holdfast.runtime.files.tar_streams import ACCOUNT

END = bytes(2 * tarfile.BLOCKSIZE)
MOST_ACCOUNT = 64 << 20


class PackTree:
    """One stream. `made` has the local account of the copy so far: omissions and changes."""

    def __init__(self, report: Callable[[Copied], None] = lambda _: None) -> None:
        self._report = report
        self.made = Copied()

    def file(self, path: Path, name: str) -> Iterator[bytes]:
        """Yield one file, a link to one included, under a name.

        Raises:
            OSError: it cannot be read, or is not a file.
        """
        yield from self._file(path, name, 0)
        yield END

    def tree(self, path: Path) -> Iterator[bytes]:
        """Yield the contents of a folder.

        Raises:
            OSError: something cannot be read.
        """
        yield _header(_member(".", path.stat(), tarfile.DIRTYPE))
        for name, entry in local_entries(path, self.made):
            if entry.is_symlink():
                link = _member(name, entry.stat(follow_symlinks=False), tarfile.SYMTYPE)
                link.linkname = os.readlink(entry.path)  # noqa: PTH115
                yield _header(link)
            elif entry.is_dir(follow_symlinks=False):
                yield _header(_member(name, entry.stat(follow_symlinks=False), tarfile.DIRTYPE))
            else:
                yield from self._file(Path(entry.path), name, os.O_NOFOLLOW)
        yield END

    def _file(self, path: Path, name: str, flags: int) -> Iterator[bytes]:
        with opened(path, flags) as (file, status):
            member = _member(name, status, tarfile.REGTYPE)
            member.size = status.st_size
            yield _header(member)
            left = status.st_size
            while left:  # as many bytes as were announced: zeros where it became shorter
                data = file.read(min(left, PART)) or bytes(min(left, PART))
                left -= len(data)
                yield data
                self.made.bytes += len(data)
                self._report(self.made)
            yield bytes(-status.st_size % tarfile.BLOCKSIZE)
            now = os.fstat(file.fileno())
            if (now.st_mtime_ns, now.st_size) != (status.st_mtime_ns, status.st_size):
                self.made.changed.append(str(path))
        self.made.files += 1


def _member(name: str, status: os.stat_result, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode = kind, stat.S_IMODE(status.st_mode) & 0o777
    tar_streams.stamp(member, status.st_mtime_ns)
    return member


def _header(member: tarfile.TarInfo) -> bytes:
    return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


class UnpackTree:
    """One copy, from its first file to its last. Its stream ends with an account of the omissions."""

    def __init__(self, stream: IO[bytes], report: Callable[[Copied], None] = lambda _: None) -> None:
        self._stream = stream
        self._report = report
        self._made = Copied()
        self._modes: list[tuple[tuple[str, ...], int]] = []

    def file(self, to: Path) -> Copied:
        """Unpack the only file in the stream under the name `to`.

        Raises:
            ProtocolError: there is something else in it, or it is cut short.
            OSError: it cannot be written.
        """
        with LocalFolder(to.parent) as folder:
            self._each(lambda tar, member: self._file(tar, member, folder, to.name))
        if self._made.files != 1:
            raise ProtocolError("cannot understand the server: it did not send exactly one file")
        return self._made

    def tree(self, to: Path) -> Copied:
        """Unpack into the folder `to`, which is made if it is missing.

        Raises:
            ProtocolError: the stream is not valid, or cut short; earlier members are there.
            InvalidArgument: folders are nested too deeply.
            OSError: something cannot be written.
        """
        to.mkdir(exist_ok=True)
        with LocalFolder(to) as folder:
            self._each(lambda tar, member: self._member(tar, member, folder))
            for path, mode in reversed(self._modes):  # now that nothing will be made in them
                with ExitStack() as stack:
                    reached(folder, path, stack).change_mode(mode)
        return self._made

    def tar(self, to: IO[bytes]) -> Copied:
        """Write the members of the stream to another, as tar, without the account.

        Raises:
            ProtocolError: the stream is not valid, or cut short; the members before that are written.
            OSError: the other stream cannot be written.
        """
        with tarfile.open(fileobj=to, mode="w|", format=tarfile.PAX_FORMAT, encoding="utf-8") as written:
            self._each(lambda tar, member: self._pass_on(tar, member, written))
        return self._made

    def _pass_on(self, tar: BoundedTar, member: tarfile.TarInfo, written: tarfile.TarFile) -> None:
        written.addfile(member, tar.content(member) if member.isreg() else None)
        self._made.files += member.isreg()
        self._made.folders += member.isdir()
        self._made.links += member.issym()
        self._made.bytes += member.size if member.isreg() else 0

    def _each(self, take: Callable[[BoundedTar, tarfile.TarInfo], None]) -> None:
        ended = False
        try:
            tar = BoundedTar(self._stream)
            for member in tar:
                if member.type == ACCOUNT:
                    self._settle(tar, member)
                    ended = True
                else:
                    take(tar, member)
        except (tarfile.TarError, EOFError) as error:
            raise ProtocolError("cannot understand the server: its tar stream is not valid") from error
        if not ended:
            raise ProtocolError("cannot copy the rest: the server has cut its answer short")

    def _member(self, tar: BoundedTar, member: tarfile.TarInfo, root: LocalFolder) -> None:
        path = tuple(member.name.split("/"))
        if any(part in ("", ".", "..") or "\0" in part for part in path):
            raise ProtocolError("cannot understand the server: its tar stream has impossible file names")
        if len(path) > DEEPEST:
            raise InvalidArgument(
                f"cannot copy {member.name[:200]!r}: folders are nested more than {DEEPEST} deep"
            )
        *above, name = path
        with ExitStack() as stack:
            folder = reached(root, tuple(above), stack)
            if member.isdir():
                folder.make_folder(name)
                self._modes.append((path, member.mode & 0o777))
                self._made.folders += 1
            elif member.issym():
                self._link(member, folder, tuple(above), name)
            else:
                self._file(tar, member, folder, name)

    def _file(self, tar: BoundedTar, member: tarfile.TarInfo, folder: LocalFolder, name: str) -> None:
        content = None if member.issparse() else tar.content(member)
        if content is None:
            raise ProtocolError("cannot understand the server: its tar stream has entries other than files")
        with folder.new_file(name, member.mode & 0o777, tar_streams.modified_ns(member)) as descriptor:
            offset = 0
            while data := content.read(PART):
                write_at(descriptor, data, offset)
                offset += len(data)
                self._made.bytes += len(data)
                self._report(self._made)
            os.ftruncate(descriptor, offset)  # what was all zeros is a hole
        self._made.files += 1

    def _link(self, member: tarfile.TarInfo, folder: LocalFolder, above: tuple[str, ...], name: str) -> None:
        if stays_below(member.linkname, above):
            folder.make_link(name, member.linkname)
            self._made.links += 1
        else:
            self._made.leave_out(member.name, LEADS_OUT)

    def _settle(self, tar: BoundedTar, member: tarfile.TarInfo) -> None:
        """Add the server's account: its omissions, and changes while it read."""
        try:
            content = tar.content(member)
            told = json.loads(b"" if content is None else content.read(MOST_ACCOUNT))
            for path, why in dict(told["left_out"]).items():
                self._made.leave_out(str(path), str(why))
            self._made.changed += map(str, told["changed"])
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ProtocolError("cannot understand the server: its account is not valid") from None


def reached(root: LocalFolder, path: tuple[str, ...], stack: ExitStack) -> LocalFolder:
    """Return a folder below the root, reached name by name without following a link."""
    found = root
    for name in path:
        found = stack.enter_context(LocalFolder(name, found))
    return found
