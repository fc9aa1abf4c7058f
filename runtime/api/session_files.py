"""The files of a session, as its handle reads and writes them, as one of its users.

The engine has no part in it, unless the session has ended: then only it can read them.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from holdfast.errors import GuestError, InvalidArgument, SessionDead, SessionError, SessionFileNotFound
from holdfast.runtime.files.copied import Copied, unreported
from holdfast.runtime.files.file_requests import PART, FileRequests
from holdfast.runtime.files.session_file import FoundFile, SessionFile
from holdfast.runtime.guest.defaults import MOST_FOUND
from holdfast.runtime.journal import host_events

if TYPE_CHECKING:
    from holdfast.runtime.files.file_watch import FileWatch
    from holdfast.runtime.files.stopped_files import StoppedFiles
    from holdfast.runtime.files.watch_budget import WatchShare
    from holdfast.runtime.guest_rpc.patience import Patience
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel

MOST_IN_MEMORY = 256 << 20
"""The largest file that `read` returns."""


class SessionFiles:
    """Files of one session. Relative paths begin in the directory of its shell, `~` is its user's home.

    Names that are not UTF-8 have lone surrogates, as `os.fsdecode` makes them. Every call continues across
    snapshots. `stat`, `download` and `write_tar` also read what a session has left that has ended. They raise
    SessionFileNotFound, SessionFileDenied or SessionFileError, all OSErrors.
    """

    def __init__(self, line: SessionChannel, user: str | None = None, owner: str | None = None) -> None:
        self._line = line
        self._user = user
        self._owner = owner
        """The user to whom what is made belongs, in whose home relative paths begin; None for its maker."""

    def as_user(self, name: str) -> SessionFiles:
        """Return the same files with the rights of another user of the session."""
        return SessionFiles(self._line, name)

    def stat(self, path: str, *, follow: bool = True) -> SessionFile:
        """Return the file at a path; with `follow` false, a link itself."""
        try:
            return self._requests().look(path, follow=follow)[1]
        except SessionDead as error:
            return self._stopped(error).look(path, follow=follow)[1]

    def list(self, path: str = ".") -> list[SessionFile]:
        """Return the entries of a folder, by name; at most 200 000."""
        return self._requests().content(path)

    def exists(self, path: str, *, follow: bool = True) -> bool:
        """Check whether a path exists; with `follow` false, a dangling link counts."""
        try:
            self.stat(path, follow=follow)
        except SessionFileNotFound:
            return False
        return True

    def find(
        self, path: str = ".", *, name: str = "*", containing: str | None = None, most: int = 1000
    ) -> builtins.list[FoundFile]:
        """Return the files below a folder by their names, or with `containing` lines of them, in order.

        Links are not followed; other file systems and unreadable folders are left out.

        Args:
            path: the folder.
            name: a shell pattern such as `*.py`, for the last part of a path; with a slash in it, for the
                path below the folder (`src/*/test_*.py`).
            containing: a text: each line of regular files that has it, of text files up to 16 MiB.
            most: where to stop, up to 10 000.

        Raises:
            InvalidArgument: the pattern or the text is not valid.
            GuestError: there are more than 200 000 names below the folder.
        """
        if not 0 < most <= MOST_FOUND:
            raise InvalidArgument(f"cannot find {most} files: give a number from 1 to {MOST_FOUND}")
        return self._requests().find(path, name, containing, most)

    def chmod(self, path: str, mode: int) -> None:
        """Change the permissions of a file or folder, such as 0o755; a link is followed."""
        text = permissions(mode)
        self._requests().change_mode(path, mode)
        self._note("changed mode", path, mode=text)

    def replace(self, path: str, old: str, new: str) -> int:
        """Replace every occurrence of a text in a file, and return the number of occurrences.

        Changes that a different program makes to the file at the same time are lost.

        Raises:
            InvalidArgument: the text to be replaced is empty, or the file has more than 256 MiB.
        """
        if not old:
            raise InvalidArgument("cannot replace an empty text: give the text that is in the file")
        before, after = (each.encode("utf-8", "surrogateescape") for each in (old, new))
        content = self.read(path)
        count = content.count(before)
        if count:
            self.write(path, content.replace(before, after))
        return count

    def write_many(self, files: Mapping[str, bytes | str]) -> int:
        """Write several files in order, each as `write` does, and return their number.

        Those before one that cannot be written stay written.
        """
        for path, data in files.items():
            self.write(path, data)
        return len(files)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return a file, or `length` bytes of it from `offset`.

        Raises:
            InvalidArgument: it has more than 256 MiB: read ranges, or `download` it.
        """
        requests, parts = self._requests(), []
        left = MOST_IN_MEMORY if length is None else length
        while left > 0:
            data, size, _ = requests.read(path, offset, min(left, PART))
            if length is None and size > MOST_IN_MEMORY:
                raise too_large(path, size)
            parts.append(data)
            offset, left = offset + len(data), left - len(data)
            if not data or offset >= size:
                break
        return b"".join(parts)

    def write(self, path: str, data: bytes | str, *, mode: int | None = None) -> None:
        """Write a file: readers see the old content or the new one, never a part.

        `mode` are its permissions; by default the replaced file's, else 0644.
        """
        content = data.encode() if isinstance(data, str) else bytes(data)
        self.write_parts(path, [content], mode=mode)

    def write_parts(self, path: str, parts: Iterable[bytes], *, mode: int | None = None) -> int:
        """Write a file from parts of any total size, as they arrive; return its size. Otherwise as `write`.

        If the parts raise, the file stays as it was.
        """
        began = time.time()
        if mode is not None:
            permissions(mode)
        size = self._requests().write(path, iter(parts), mode=mode)
        self._brought("wrote", path, began, bytes=size)
        return size

    def make_folder(self, path: str, *, parents: bool = False) -> None:
        """Make a folder, with `parents` also its missing parents; an existing folder is unchanged."""
        self._requests().make_folder(path, parents=parents)

    def move(self, path: str, to: str) -> None:
        """Rename a file or folder on the same file system; an existing file of the new name is replaced."""
        began = time.time()
        self._requests().move(path, to)
        self._brought("moved", path, began, to=to)

    def remove(self, path: str, *, recursive: bool = False, missing_ok: bool = False) -> None:
        """Remove a file or an empty folder; with `recursive` a folder with all its contents."""
        self._requests().remove(path, recursive=recursive, missing_ok=missing_ok)
        self._note("removed", path)

    def watch(
        self,
        path: str = ".",
        *,
        recursive: bool = False,
        timeout: float | None = None,
        patience: Patience | None = None,
    ) -> FileWatch:
        """Watch a folder or a file; iterate over the result, and close it (`with`).

        The watch has begun on return. Changes are found by comparison, some milliseconds after they
        happened: a file that is made and removed in between is not seen. Nothing is lost
        over a snapshot, a rewind, or a lost connection. Writes through memory mappings are not seen.

        Args:
            path: a link is followed.
            recursive: watch the folders below as well, those on other file systems excepted.
            timeout: seconds after which the iteration ends.
            patience: another thread ends the iteration with it.
        """
        from holdfast.runtime.files.file_watch import FileWatch

        return FileWatch(
            self._line, path, recursive=recursive, user=self._user, timeout=timeout, patience=patience
        )

    def download(self, path: str, to: str | Path, *, report: Callable[[Copied], None] = unreported) -> Copied:
        """Copy a file or a folder of the session to this machine, under the name `to`.

        Only files, folders and links that stay below the copy are made.
        `report` is called with the counts so far.

        Raises:
            OSError: it cannot be written here.
        """
        from holdfast.runtime.files.copy_files import CopyOut

        try:
            requests = self._requests()
            place, found = requests.look(path)
        except SessionDead as error:
            place, made = self._stopped(error).download(path, Path(to), report)
            self._note("copied out", place, files=made.files, bytes=made.bytes)
            return made
        copy = CopyOut(requests, report)
        made = copy.tree(place, Path(to)) if found.kind == "folder" else copy.file(place, found, Path(to))
        self._note("copied out", place, files=made.files, bytes=made.bytes)
        return made

    def upload(self, source: str | Path, to: str, *, report: Callable[[Copied], None] = unreported) -> Copied:
        """Copy a file or a folder of this machine into the session, under the name `to`.

        Raises:
            OSError: it cannot be read here.
        """
        from holdfast.runtime.files.copy_files import CopyIn

        source, began = Path(source), time.time()
        copy = CopyIn(self._requests(), report)
        made = copy.tree(source, to) if source.is_dir() else copy.file(source, to)
        self._brought("copied in", to, began, files=made.files, bytes=made.bytes)
        return made

    def write_tar(self, path: str, stream: IO[bytes]) -> Copied:
        """Write a file or the contents of a folder of the session to a stream, as tar."""
        try:
            return self._tar(path, stream)
        except SessionDead as error:
            place, made = self._stopped(error).write_tar(path, stream)
            self._note("copied out", place, files=made.files, bytes=made.bytes)
            return made

    def _tar(self, path: str, stream: IO[bytes], *, account: bool = False) -> Copied:
        from holdfast.runtime.files import tar_streams

        requests = self._requests()
        place, found = requests.look(path)
        made = tar_streams.write(requests, place, found, stream, account=account)
        self._note("copied out", place, files=made.files, bytes=made.bytes)
        return made

    def read_tar(self, stream: IO[bytes], to: str) -> Copied:
        """Unpack a tar stream, compressed or not, into a folder of the session.

        Raises:
            InvalidArgument: it is not a tar archive, or a member leads out of the folder.
        """
        from holdfast.runtime.files import tar_streams

        began = time.time()
        made = tar_streams.read(self._requests(), stream, to)
        self._brought("copied in", to, began, files=made.files, bytes=made.bytes)
        return made

    def _requests(self) -> FileRequests:
        return FileRequests(self._line.awake(), self._user, self._owner)

    def _stopped(self, error: SessionDead) -> StoppedFiles:
        """Return the files of a session that has ended, if its container is still there."""
        from holdfast.runtime.files.stopped_files import StoppedFiles

        row = self._line.row
        if row.state != "dead" or self._line.context.engine.inspect(row.container_id or "") is None:
            raise error
        if self._user is not None:
            raise InvalidArgument(
                f"cannot read as {self._user} in session {row.name}: it has ended, and its users are unknown",
                hint="leave --user out",
            ) from error
        return StoppedFiles(self._line.context, row)

    def _brought(self, what: str, path: str, began: float, **details: Any) -> None:
        """Record a write since a certain time, with its directory if the path is relative."""
        to = str(details.get("to", path))
        if not to.startswith("/"):
            with suppress(SessionError, GuestError, OSError):  # gone already
                details["place"] = self._requests().look(to)[0].encode("utf-8", "replace").decode()
        self._note(what, path, began=round(began, 3), **details)

    def _note(self, what: str, path: str, **details: Any) -> None:
        shown = path.encode("utf-8", "replace").decode()
        host_events.note(self._line.context, self._line.known.id, "files", what=what, path=shown, **details)


def too_large(path: str, size: int) -> InvalidArgument:
    """Return the error for a file that `read` does not return."""
    return InvalidArgument(
        f"cannot read {path!r} at once: it has {size} bytes", hint="read ranges of it, or download it"
    )


def permissions(mode: int) -> str:
    """Return the permissions of a file as four octal digits.

    Raises:
        InvalidArgument: they are not permissions.
    """
    if isinstance(mode, bool) or not isinstance(mode, int) or not 0 <= mode <= 0o777:
        raise InvalidArgument(
            "cannot change the permissions: they must be from 0 to 0o777", hint="such as 0o755"
        )
    return f"{mode:04o}"


def owned_by(files: SessionFiles, owner: str) -> SessionFiles:
    """Return the same files with the same rights; new files belong to a user, whose home `~` is.

    Relative paths begin in that home.
    """
    return SessionFiles(files._line, files._user, owner)


def located(
    files: SessionFiles, path: str, *, follow: bool = True, attributes: bool = False
) -> tuple[str, SessionFile]:
    """Return the absolute path of a file and its description; with `follow` false, of a link itself."""
    return files._requests().look(path, follow=follow, attributes=attributes)


def with_attributes(files: SessionFiles, path: str) -> list[SessionFile]:
    """List a folder as `SessionFiles.list` does, with the attributes of the files."""
    return files._requests().content(path, attributes=True)


def write_with_attributes(
    files: SessionFiles, path: str, parts: Iterable[bytes], attributes: Mapping[str, str]
) -> None:
    """Write a file as `SessionFiles.write_parts` does, and give it attributes.

    Raises:
        SessionFileError: it cannot be written, or its file system keeps none.
    """
    began = time.time()
    size = files._requests().write(path, iter(parts), attributes=attributes)
    files._brought("wrote", path, began, bytes=size)


def upload_project(files: SessionFiles, source: Path, to: str) -> Copied:
    """Copy a folder into the session, without the credentials in configurations of Git.

    Raises:
        OSError: it cannot be read here.
    """
    from holdfast.runtime.files.copy_files import CopyIn
    from holdfast.runtime.history.repositories import git_config

    began = time.time()
    made = CopyIn(files._requests()).tree(source, to, git_config.edit)
    files._brought("copied in", to, began, files=made.files, bytes=made.bytes)
    return made


def accounted_tar(files: SessionFiles, path: str, stream: IO[bytes]) -> Copied:
    """Write as `SessionFiles.write_tar` does, followed by an account, which only `UnpackTree` reads."""
    return files._tar(path, stream, account=True)


def watched(
    files: SessionFiles,
    path: str,
    share: WatchShare,
    *,
    recursive: bool,
    patience: Patience,
    timeout: float | None = None,
    most: int | None = None,
) -> FileWatch:
    """Watch as `SessionFiles.watch` does, but hold only as much as the share allows, and at most `most`
    bytes per tree."""
    from holdfast.runtime.files import file_tree
    from holdfast.runtime.files.file_watch import FileWatch

    return FileWatch(
        files._line,
        path,
        recursive=recursive,
        user=files._user,
        timeout=timeout,
        patience=patience,
        most=file_tree.MOST_BYTES if most is None else most,
        share=share,
    )


def unzipped(files: SessionFiles, stream: IO[bytes], to: str) -> Copied:
    """Unpack a zip archive, a seekable file, into a folder of the session.

    Raises:
        InvalidArgument: it is not a zip archive, or has a member that is refused.
        SessionFileError: something cannot be written.
    """
    from holdfast.runtime.files import zip_archives

    began = time.time()
    made = zip_archives.read(files._requests(), stream, to)
    files._brought("copied in", to, began, files=made.files, bytes=made.bytes)
    return made
