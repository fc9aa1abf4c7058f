"""The part of a checkout that goes into a session: the files that git would keep, and git's own folder.

Tracked files and the ones neither tracked nor ignored, as they are in the working tree; the same for
submodules; symbolic links as links. From `.git/config` the credentials that CI systems leave there are
removed. A folder that is not a checkout goes whole. Files that Holdfast wrote into either stay behind:
captures of earlier jobs would give their memory to this one. The folder is not trusted: git itself is not
run in it (`git_place`), and no link in it is followed. In the session, all files belong to its user.
"""

from __future__ import annotations

import io
import os
import stat
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from holdfast.base import own_folders
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.guest import layout
from holdfast.runtime.history.repositories import git_config, git_place, work_tree
from holdfast.runtime.history.repositories.git_place import GitPlace
from holdfast.runtime.history.repositories.work_tree import MOST, WorkTree

if TYPE_CHECKING:
    from pathlib import Path
    from tarfile import TarInfo

    from holdfast.engine.engine import Engine

_NOT_CARRIED = ("worktrees", "fsmonitor--daemon.ipc", "index.lock")


@dataclass(frozen=True, slots=True)
class Checkout:
    """The files that go into a session.

    `entries` are pairs of the path in the session's folder and the path here; `texts` are files whose
    contents differ from those here. The command begins in the subfolder `inside`. `revision` is the commit
    that is checked out, with a mark if files possibly have changed since. `notes` say what is left out.
    `bases` are the folders that all of it is in, beneath which no link is followed.
    """

    root: Path
    inside: str
    entries: tuple[tuple[str, Path], ...]
    texts: dict[str, bytes] = field(default_factory=dict)
    revision: str | None = None
    notes: tuple[str, ...] = ()
    bases: tuple[Path, ...] = ()


def look(folder: Path, written: Iterable[Path] = ()) -> Checkout:
    """Return the files of a folder that go into a session; of the whole checkout, if the folder is in one.

    Args:
        folder: the folder.
        written: files and folders that the job will write to, which are left out.

    Raises:
        InvalidArgument: there is no such folder, or it is in a checkout of another user.
    """
    folder = folder.expanduser().absolute()
    if not folder.is_dir():
        raise InvalidArgument(f"cannot check out {plain(str(folder), 200)}: there is no such folder")
    place = git_place.find(folder)
    if place is None:
        ours = _Ours(folder, written, frozenset())
        walked = {str(path.relative_to(folder)): path for path in work_tree.walk(folder)}
        whole = {name: path for name, path in walked.items() if not ours.has(name)}
        texts = _configurations(whole)
        notes = ("not a git checkout: the whole folder is copied", *ours.notes)
        return Checkout(folder, "", _bounded(iter(whole.items())), texts, notes=notes, bases=(folder,))
    tree, root = WorkTree.of(place), place.root
    tracked = frozenset(one.path for one in tree.entries or () if one.path.endswith(own_folders.BUNDLE))
    ours = _Ours(root, written, tracked)
    entries = {name: root / name for name in tree.names() if not ours.has(name)}
    entries |= _own_folder(place)
    texts = _configurations(entries)
    inside = "" if folder.resolve() == root else str(folder.resolve().relative_to(root))
    bases = tuple(dict.fromkeys((root, place.own, place.common)))
    notes = (*tree.notes, *ours.notes)
    return Checkout(root, inside, _bounded(iter(entries.items())), texts, _revision(tree), notes, bases)


class _Ours:
    """The names in a checkout that Holdfast wrote. Bundles that are `tracked` are input."""

    def __init__(self, root: Path, written: Iterable[Path], tracked: frozenset[str]) -> None:
        self._root, self._tracked = root, tracked
        self._known: dict[str, bool] = {}
        self._left_out: dict[str, None] = {}
        for path in written:
            with suppress(ValueError):
                name = str(path.expanduser().resolve().relative_to(root.resolve()))
                self._known[name] = name != "."

    @property
    def notes(self) -> tuple[str, ...]:
        """The paths that were left out."""
        return tuple(f"{plain(name, 200)} is left out: {own_folders.WHY}" for name in self._left_out)

    def has(self, name: str) -> bool:
        """Return whether a file is one of the names, or in a folder that is."""
        above, _, _ = name.rpartition("/")
        if above and self.has(above):
            return True
        found = self._known.get(name)
        if found is None:
            path = self._root / name
            bundle = name.endswith(own_folders.BUNDLE) and path.is_file() and name not in self._tracked
            found = bundle or (path.is_dir() and not path.is_symlink() and own_folders.is_own(path))
            self._known[name] = found
        if found:
            self._left_out[name] = None
        return found


def _own_folder(place: GitPlace) -> dict[str, Path]:
    """Return git's own folder; a linked worktree's is assembled into an ordinary one."""
    common = place.common
    paths = (path for path in work_tree.walk(common) if _carried(path, common))
    entries = {f".git/{path.relative_to(common)}": path for path in paths}
    if place.own != common:
        names = ("HEAD", "index")
        entries |= {f".git/{name}": place.own / name for name in names if (place.own / name).is_file()}
    return entries


def _configurations(entries: dict[str, Path]) -> dict[str, bytes]:
    """Take the configurations of repositories out of the entries, and return their harmless parts."""
    names = [name for name, path in entries.items() if git_config.is_one(name) and not path.is_symlink()]
    return {name: _config(name, entries.pop(name)) for name in sorted(names)}


def _config(name: str, path: Path) -> bytes:
    data = git_config.harmless_bytes(git_place.read(path, git_config.LONGEST))
    if name != ".git/config":
        return data
    # That of a submodule, here the checkout itself, names a place elsewhere.
    lines = data.splitlines(keepends=True)
    return b"".join(line for line in lines if line.split(b"=")[0].strip().lower() != b"worktree")


def _carried(path: Path, common: Path) -> bool:
    name = path.relative_to(common).parts[0]
    return name not in _NOT_CARRIED and not path.name.endswith(".lock")


def _revision(tree: WorkTree) -> str | None:
    commit = git_place.head(tree.place)
    if commit is None:
        return None
    return commit + {True: " and changes", False: "", None: " and perhaps changes"}[tree.changed()]


def _bounded(found: Iterator[tuple[str, Path]]) -> tuple[tuple[str, Path], ...]:
    entries = []
    for entry in found:
        entries.append(entry)
        if len(entries) > MOST:
            raise InvalidArgument(
                f"cannot check out: there are more than {MOST} files", hint="--checkout a smaller folder"
            )
    return tuple(entries)


def identity(passwd: bytes, user: str | None) -> tuple[int, int]:
    """Return the numbers of a session's user by its passwd file; root's if it has none of its own.

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
    raise InvalidArgument(f"cannot use user {plain(user, 40)}: the session's image has no such user")


TOLD_EVERY = 100
"""Entries between two reports of how many were packed."""


def _quiet(_done: int, _total: int) -> None:
    return None


def pack(
    checkout: Checkout, file: IO[bytes], owner: tuple[int, int], told: Callable[[int, int], None] = _quiet
) -> int:
    """Write a checkout as an archive; return the number of entries.

    A file that vanishes in between is left out, as if it had been deleted before.

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
            for number, (name, path) in enumerate(checkout.entries):
                if number % TOLD_EVERY == 0:
                    told(number, len(checkout.entries))
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
    """Add a file, a link or a folder unchanged; return whether it is one of these.

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
    """Opens folders below some others without following links. The last one stays open."""

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


def put(
    engine: Engine,
    container: str,
    checkout: Checkout,
    owner: tuple[int, int],
    staging: Path,
    told: Callable[[int, int], None] = _quiet,
) -> int:
    """Copy a checkout into the workspace of a session's container; return the number of entries.

    The callback gets the number of entries packed so far, and the total.

    Raises:
        StoreError, EngineError: it cannot be read or copied.
    """
    with tempfile.TemporaryFile(dir=staging) as file:
        try:
            count = pack(checkout, file, owner, told)
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
