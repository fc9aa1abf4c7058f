"""Files of a session that has ended, read from its container by the engine: no supervisor answers there.

The engine's stream is as untrusted as the session it is from; `UnpackTree` makes nothing of it but files,
folders and links below the copy. No user's rights apply, and nothing is written.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from holdfast.base.bounded_tar import BoundedTar
from holdfast.engine.joined import Joined
from holdfast.errors import EngineError, InvalidArgument, ProtocolError, SessionFileNotFound
from holdfast.runtime.files import tar_streams
from holdfast.runtime.files.copied import Copied
from holdfast.runtime.files.session_file import SessionFile
from holdfast.runtime.files.tar_trees import UnpackTree, reached
from holdfast.runtime.guest import layout

if TYPE_CHECKING:
    import tarfile

    from holdfast.runtime.files.local_folder import LocalFolder
    from holdfast.runtime.files.session_file import Kind
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow

MOST_LINKS = 16
"""Links that are followed to a file."""


class StoppedFiles:
    """The files of one container, which does not run."""

    def __init__(self, context: Context, session: SessionRow) -> None:
        self._files = context.engine.files
        self._container = session.container_id or ""
        self._workdir = str(session.options.get("workdir") or layout.WORKSPACE)

    def look(self, path: str, *, follow: bool = True) -> tuple[str, SessionFile]:
        """Return the absolute path, and its entry; a link is followed unless `follow` is false.

        Raises:
            SessionFileNotFound: nothing is there.
        """
        if path == "~" or path.startswith("~/"):
            raise InvalidArgument(
                f"cannot look at {path[:200]!r}: the session has ended, so no user of it has a home",
                hint="begin the path with `/`",
            )
        place = posixpath.normpath(posixpath.join(self._workdir, path))
        for _ in range(MOST_LINKS):
            entry = self._files.entry(self._container, place)
            if entry is None:
                break
            if not (entry.issym() and follow):
                return place, _described(posixpath.basename(place) or "/", entry)
            place = posixpath.normpath(posixpath.join(posixpath.dirname(place), entry.linkname))
        raise SessionFileNotFound(f"cannot read {path[:200]!r}: there is no such file")

    def download(self, path: str, to: Path, report: Callable[[Copied], None]) -> tuple[str, Copied]:
        """Copy a file or a folder to the path `to`; return where it was, and the counts.

        Raises:
            SessionFileNotFound, ProtocolError: it is not there, or cannot be read.
            OSError: it cannot be written.
        """
        place, found = self.look(path)
        unpacking = _Unpacking(self._stream(place), report)
        return place, unpacking.tree(to) if found.kind == "folder" else unpacking.file(to)

    def write_tar(self, path: str, stream: IO[bytes]) -> tuple[str, Copied]:
        """Write a file, or a folder's contents, to a stream as tar; return its place, and the counts."""
        import tarfile

        place, _ = self.look(path)
        made = Copied()
        found = BoundedTar(self._stream(place))
        with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT, encoding="utf-8") as tar:
            for member in found:
                inside = _inside(member)
                if inside or not member.isdir():
                    member.name = "/".join(inside) or posixpath.basename(place)
                    if member.islnk():
                        member.linkname = member.linkname.partition("/")[2]
                    tar.addfile(member, found.content(member) if member.isreg() else None)
                    made.files += member.isreg()
                    made.folders += member.isdir()
                    made.links += member.issym()
                    made.bytes += member.size if member.isreg() else 0
        return place, made

    def _stream(self, place: str) -> IO[bytes]:
        return cast("IO[bytes]", Joined(self._files.archive(self._container, place)))


class _Unpacking(UnpackTree):
    """Unpacks an engine's archive: all names begin with the last name of the path, and no account follows."""

    def _each(self, take: Callable[[BoundedTar, tarfile.TarInfo], None]) -> None:
        import tarfile

        try:
            tar = BoundedTar(self._stream)
            for member in tar:
                take(tar, member)
        except (tarfile.TarError, EOFError, EngineError) as error:
            raise ProtocolError(f"cannot read the rest of the session's files: {error}") from error

    def _member(self, tar: BoundedTar, member: tarfile.TarInfo, root: LocalFolder) -> None:
        member.name = "/".join(_inside(member))
        if not member.name:
            return
        if member.islnk():
            self._again(member, root)
        elif member.isdir() or member.issym() or member.isreg():
            super()._member(tar, member, root)
        else:
            self._made.leave_out(member.name, "neither file, folder nor link")

    def _again(self, member: tarfile.TarInfo, root: LocalFolder) -> None:
        """Copy a file once more under a second name: engines send its content only once."""
        *above, name = member.name.split("/")
        *where, known = member.linkname.strip("/").split("/")[1:] or [""]
        try:
            with ExitStack() as stack:
                source = reached(root, tuple(where), stack).open_file(known)
                stack.callback(os.close, source)
                folder = reached(root, tuple(above), stack)
                with folder.new_file(
                    name, member.mode & 0o777, tar_streams.modified_ns(member)
                ) as descriptor:
                    size = os.fstat(source).st_size
                    while (at := os.lseek(descriptor, 0, os.SEEK_CUR)) < size:
                        os.sendfile(descriptor, source, at, size - at)
        except OSError:
            self._made.leave_out(member.name, "a second name of a file that was not copied")
            return
        self._made.files += 1
        self._made.bytes += size


def _inside(member: tarfile.TarInfo) -> tuple[str, ...]:
    """Return the names below the requested folder, or the file."""
    return tuple(member.name.strip("/").split("/")[1:])


def _described(name: str, entry: tarfile.TarInfo) -> SessionFile:
    kinds: tuple[tuple[bool, Kind], ...] = (
        (entry.isreg(), "file"),
        (entry.isdir(), "folder"),
        (entry.issym(), "link"),
        (entry.isfifo(), "fifo"),
    )
    return SessionFile(
        name=name,
        kind=next((kind for there, kind in kinds if there), "device"),
        size=entry.size,
        mode=entry.mode & 0o7777,
        mtime_ns=int(entry.mtime * 1_000_000_000),
        uid=entry.uid,
        gid=entry.gid,
        version="",
        target=entry.linkname if entry.issym() else None,
    )
