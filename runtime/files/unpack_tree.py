"""Unpacks a tar stream of a session's files on this machine, below one folder only, or passes it on.

What the stream says is not trusted, as little as the session it is from: see `local_folder.py`.
"""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from holdfast.base.bounded_tar import BoundedTar
from holdfast.errors import InvalidArgument, ProtocolError
from holdfast.runtime.files import tar_times
from holdfast.runtime.files.copied import Copied
from holdfast.runtime.files.copy_out import LEADS_OUT
from holdfast.runtime.files.file_requests import PART
from holdfast.runtime.files.local_folder import DEEPEST, LocalFolder, stays_below, write_at
from holdfast.runtime.files.tar_streams import ACCOUNT

MOST_ACCOUNT = 64 << 20


class UnpackTree:
    """One copy, from its first file to its last. Its stream ends with an account of what was left out."""

    def __init__(self, stream: IO[bytes], report: Callable[[Copied], None] = lambda _: None) -> None:
        self._stream = stream
        self._report = report
        self._made = Copied()
        self._modes: list[tuple[tuple[str, ...], int]] = []

    def file(self, to: Path) -> Copied:
        """Unpack the one file in the stream under the name `to`.

        Raises:
            ProtocolError: there is something else in it, or it is cut short.
            OSError: it cannot be written.
        """
        with LocalFolder(to.parent) as folder:
            self._each(lambda tar, member: self._file(tar, member, folder, to.name))
        if self._made.files != 1:
            raise ProtocolError("cannot understand the server: it sent no file, or several")
        return self._made

    def tree(self, to: Path) -> Copied:
        """Unpack into the folder `to`, which is made if it is missing.

        Raises:
            ProtocolError: the stream is not valid, or cut short; what came before is there.
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
            raise ProtocolError("cannot understand the server: its tar stream has names that no file has")
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
            raise ProtocolError("cannot understand the server: its tar stream has other things than files")
        with folder.new_file(name, member.mode & 0o777, tar_times.mtime_ns(member)) as descriptor:
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
        """Take over what only the server knows: what it left out, and what changed while it read."""
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
