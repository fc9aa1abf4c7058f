"""The files of a checkout that Git would keep, and whether they differ from the commit. Runs no program of
Git.

Tracked files come from the index; the rest are the files that no text of gitignore(5) names. Filters, hooks
and programs of a configuration are never run: a file that differs only by the effect of a filter is
unknown.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.runtime.history.repositories import git_files, git_ignore, git_index, git_place
from holdfast.runtime.history.repositories.git_ignore import Ignored
from holdfast.runtime.history.repositories.git_index import IndexEntry
from holdfast.runtime.history.repositories.git_place import GitPlace

DEEPEST = 8
"""Depth to which submodules within submodules are followed."""
MOST = 2_000_000
"""Limit of entries; a checkout of Linux has 90 000."""
_LONGEST_INDEX = 512 << 20
_PIECE = 1 << 20
_CONVERSIONS = (b"filter", b"ident", b"working-tree-encoding")


@dataclass(slots=True)
class WorkTree:
    """One checkout, with the files read of it once.

    Attributes:
        place: where it is.
        entries: of its index; None if that is not understood, so that nothing counts as tracked.
        notes: what is left out, one line each.
        inner: checkouts in it, by their paths.
    """

    place: GitPlace
    entries: list[IndexEntry] | None
    notes: list[str] = field(default_factory=list)
    inner: dict[str, WorkTree] = field(default_factory=dict)

    @classmethod
    def of(cls, place: GitPlace) -> WorkTree:
        """Read the index of a checkout."""
        data = git_place.read(place.own / "index", _LONGEST_INDEX)
        width = (
            32 if (git_place.setting(place, "extensions", "objectformat") or "").lower() == "sha256" else 20
        )
        if not data and not os.path.lexists(place.own / "index"):
            return cls(place, [])
        return cls(place, git_index.entries(data, MOST, digest=width))

    def names(self, depth: int = 0) -> Iterator[str]:
        """Yield the paths of files that Git would keep, including files of inner checkouts, in order."""
        tracked = {one.path for one in self.entries or () if one.kind in (git_index.FILE, git_index.LINK)}
        modules = [one.path for one in self.entries or () if one.kind == git_index.REPOSITORY]
        if self.entries is None:
            self.notes.append("its index cannot be read: ignored files are left out")
        found = {name for name in tracked if self._is_there(name)}
        inner = {name for name in modules if self._is_there(name)}
        for name, checkout in self._others(tracked):
            (inner if checkout else found).add(name)
        for name in sorted(found | inner):
            if name in found:
                yield name
            elif depth < DEEPEST:
                yield from self._inner(name, depth)

    def _inner(self, name: str, depth: int) -> Iterator[str]:
        """Yield the paths of a submodule, or of a checkout in a checkout, with its `.git`."""
        root = self.place.root / name
        if not os.path.lexists(root / ".git"):
            return
        place = git_place.at(root, self.place)
        if place is None:
            self.notes.append(f"{name} is left out: its .git leads elsewhere")
            return
        made = self.inner[name] = WorkTree.of(place)
        yield from (f"{name}/{each}" for each in made.names(depth + 1))
        self.notes += [f"{name}: {note}" for note in made.notes]
        own = root / ".git"
        if own.is_dir():
            yield from (f"{name}/.git/{path.relative_to(own)}" for path in walk(own))
        else:
            yield f"{name}/.git"

    def _is_there(self, name: str) -> bool:
        """Check that an entry of a name exists, and that no link leads there."""
        at = self.place.root
        try:
            for part in name.split("/")[:-1]:
                at /= part
                if not stat.S_ISDIR(at.lstat().st_mode):
                    return False
            return os.path.lexists(self.place.root / name)
        except OSError:
            return False

    def _others(self, tracked: set[str]) -> Iterator[tuple[str, bool]]:
        """Yield files that are neither tracked nor ignored, and whether each is a checkout of its own."""
        modules = {one.path for one in self.entries or () if one.kind == git_index.REPOSITORY}
        waiting = [("", _own_patterns(self.place))]
        while waiting:
            above, ignored = waiting.pop()
            folder = self.place.root / above
            own = git_ignore.read(git_place.read(folder / ".gitignore", git_ignore.LONGEST))
            depth = len(above.split("/")) if above else 0
            holding = Ignored(depth, own, ignored) if own else ignored
            try:
                with os.scandir(folder) as entries:
                    content = sorted(entries, key=lambda entry: entry.name)
            except OSError:
                self.notes.append(f"{above or '.'} cannot be read and is left out")
                continue
            for entry in content:
                name = f"{above}/{entry.name}" if above else entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if entry.name == ".git" or name in tracked or name in modules:
                    continue
                if holding.ignores(name.split("/"), is_folder):
                    continue
                if not is_folder:
                    yield name, False
                elif os.path.lexists(os.path.join(entry.path, ".git")):  # noqa: PTH118 - of a DirEntry
                    yield name, True
                else:
                    waiting.append((name, holding))

    def changed(self) -> bool | None:
        """Check whether tracked files differ from the commit that is checked out; None if that is unknown.

        Call it after `names`, which finds the checkouts in it.
        """
        if self.entries is None:
            return None
        unknown = False
        commit = git_place.head(self.place)
        if commit is not None:
            kept, made = (
                git_files.tree_of_commit(self.place.common, commit),
                git_index.tree_of(self.entries),
            )
            if made is None or (kept is not None and kept != made):
                return True
            unknown = kept is None
        elif self.entries:
            unknown = True
        written = _mtime(self.place.own / "index")
        modes = (git_place.setting(self.place, "core", "filemode") or "").lower() not in (
            "false",
            "no",
            "0",
        )
        for entry in self.entries:
            if entry.left_out or entry.kind == git_index.FOLDER:
                continue
            different = (
                self._module_changed(entry)
                if entry.kind == git_index.REPOSITORY
                else self._file_changed(entry, written, modes)
            )
            if different:
                return True
            unknown |= different is None
        return None if unknown else False

    def _module_changed(self, entry: IndexEntry) -> bool | None:
        inner = self.inner.get(entry.path)
        if inner is None:
            return False  # it is not checked out
        head = git_place.head(inner.place)
        return (
            head != entry.digest.hex() if head is not None and head != entry.digest.hex() else inner.changed()
        )

    def _file_changed(self, entry: IndexEntry, written: int, modes: bool) -> bool | None:
        if not self._is_there(entry.path):
            return True
        path = self.place.root / entry.path
        told = path.lstat()
        link = stat.S_ISLNK(told.st_mode)
        if not (link or stat.S_ISREG(told.st_mode)) or link != (entry.kind == git_index.LINK):
            return True
        if modes and not link and bool(told.st_mode & 0o100) != bool(entry.mode & 0o100):
            return True
        then = entry.mtime * 10**9 + entry.nanoseconds
        same = told.st_size % 2**32 == entry.size and then in (
            told.st_mtime_ns,
            told.st_mtime_ns // 10**9 * 10**9,
        )
        # What was written while the index was may have changed within one tick of the clock.
        if same and then < written:
            return False
        try:
            digests = _digests(path, told.st_size, link, len(entry.digest))
        except OSError:
            return None
        if entry.digest in digests:
            return False
        return None if self._is_converted(entry.path) else True

    def _is_converted(self, name: str) -> bool:
        """Check whether a file can be stored in a different form, by attributes of the project or its own."""
        folders = [self.place.root, *((self.place.root / name).parents)]
        files = [folder / ".gitattributes" for folder in folders if folder.is_relative_to(self.place.root)]
        files.append(self.place.common / "info" / "attributes")
        return any(
            word in text
            for text in (git_place.read(path, git_ignore.LONGEST) for path in files)
            for word in _CONVERSIONS
        )


def walk(folder: Path) -> Iterator[Path]:
    """Yield files, links and empty folders below a folder, in order; no link is followed."""
    waiting = [folder]
    while waiting:
        for path in sorted(waiting.pop().iterdir()):
            if path.is_dir() and not path.is_symlink():
                waiting.append(path)
            yield path


def _own_patterns(place: GitPlace) -> Ignored:
    """Return the patterns of the caller, and of the repository's own folder."""
    named = git_place.own_settings("core", "excludesFile")
    home = Path(os.environ.get("HOME") or "~").expanduser()
    usual = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git" / "ignore"
    path = Path(named[-1]).expanduser() if named else usual
    try:
        callers = path.read_bytes()
    except OSError:
        callers = b""
    own = git_place.read(place.common / "info" / "exclude", git_ignore.LONGEST)
    return Ignored(0, git_ignore.read(own), Ignored(0, git_ignore.read(callers)))


def _digests(path: Path, size: int, link: bool, width: int) -> set[bytes]:
    """Return the digests of a file in the possible forms of Git's storage: unchanged, and with Unix line
    ends."""
    made = [hashlib.new("sha256" if width == 32 else "sha1", usedforsecurity=False)]
    if link:
        text = os.fsencode(path.readlink())
        made[0].update(b"blob %d\0%s" % (len(text), text))
        return {made[0].digest()}
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        made[0].update(b"blob %d\0" % size)
        short, left = b"", size if stat.S_ISREG(os.fstat(descriptor).st_mode) else 0
        while piece := file.read(min(left, _PIECE)):  # and no further, should it grow meanwhile
            made[0].update(piece)
            left -= len(piece)
            short = piece if size <= _PIECE else b""
    if b"\r\n" in short:
        text = short.replace(b"\r\n", b"\n")
        made.append(hashlib.new(made[0].name, b"blob %d\0%s" % (len(text), text), usedforsecurity=False))
    return {each.digest() for each in made}


def _mtime(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
