"""Packs files of this machine as a tar stream, in parts as they are wanted.

Local links are packed as links and never followed, except for one that the caller names. What is neither
file, folder nor link is left out, and so is what Holdfast itself has written into a folder within the tree.
"""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast.base import own_folders
from holdfast.runtime.files import tar_times
from holdfast.runtime.files.copied import Copied
from holdfast.runtime.files.file_requests import PART

END = bytes(2 * tarfile.BLOCKSIZE)


class PackTree:
    """One stream. `made` has what is known here of the copy so far: what was left out, and what changed."""

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
        """Yield what is in a folder.

        Raises:
            OSError: something cannot be read.
        """
        yield _header(_member(".", path.stat(), tarfile.DIRTYPE))
        left = [(path, "")]
        while left:
            folder, prefix = left.pop()
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
            for entry in found:
                name, told = f"{prefix}{entry.name}", entry.stat(follow_symlinks=False)
                if entry.is_symlink():
                    link = _member(name, told, tarfile.SYMTYPE)
                    link.linkname = os.readlink(entry.path)  # noqa: PTH115
                    yield _header(link)
                    self.made.links += 1
                elif entry.is_dir(follow_symlinks=False) and own_folders.is_own(entry.path):
                    self.made.leave_out(entry.path, own_folders.WHY)
                elif entry.is_dir(follow_symlinks=False):
                    yield _header(_member(name, told, tarfile.DIRTYPE))
                    self.made.folders += 1
                    left.append((Path(entry.path), f"{name}/"))
                elif entry.is_file(follow_symlinks=False):
                    yield from self._file(Path(entry.path), name, os.O_NOFOLLOW)
                else:
                    self.made.leave_out(entry.path, "neither file, folder nor link")
        yield END

    def _file(self, path: Path, name: str, flags: int) -> Iterator[bytes]:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | flags)
        with os.fdopen(descriptor, "rb") as file:
            told = os.fstat(file.fileno())
            if not stat.S_ISREG(told.st_mode):
                raise OSError(None, "it is no regular file", str(path))
            member = _member(name, told, tarfile.REGTYPE)
            member.size = told.st_size
            yield _header(member)
            left = told.st_size
            while left:  # as many bytes as were announced: zeros where it became shorter
                data = file.read(min(left, PART)) or bytes(min(left, PART))
                left -= len(data)
                yield data
                self.made.bytes += len(data)
                self._report(self.made)
            yield bytes(-told.st_size % tarfile.BLOCKSIZE)
            now = os.fstat(file.fileno())
            if (now.st_mtime_ns, now.st_size) != (told.st_mtime_ns, told.st_size):
                self.made.changed.append(str(path))
        self.made.files += 1


def _member(name: str, told: os.stat_result, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode = kind, stat.S_IMODE(told.st_mode) & 0o777
    tar_times.stamp(member, told.st_mtime_ns)
    return member


def _header(member: tarfile.TarInfo) -> bytes:
    return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
