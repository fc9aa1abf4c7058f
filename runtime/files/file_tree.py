"""A watcher's knowledge of a folder in a session, and its differences from a new report. Pure.

Whatever order the session reports in, the tree is afterwards as the session last saw it, and the changes lead
from the tree before to the tree after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from holdfast.base.value_classes import as_table
from holdfast.errors import ProtocolError
from holdfast.runtime.files.session_file import LONGEST_PATH, SessionFile
from holdfast.runtime.guest_rpc import wire_fields

MOST_BYTES = 256 << 20
"""Memory of one tree: some 450 000 files with ordinary names. Beyond that the watch ends."""
_EACH, _FOLDER = 520, 250
"""Bytes of a file in addition to its texts, and of its place; and of a folder, which is found by its whole
path.
"""
_CHANGE = 250
_WIDE = 32
"""Bytes by which the head of a text is larger that is not of ASCII."""
ChangeKind = Literal["created", "modified", "removed"]


@dataclass(frozen=True, slots=True)
class WatchedChange:
    """One change: the kind of change to the absolute `path`; `file` is the present file, if any.

    A file that is replaced by another one is modified; a file in the place of a folder is created after the
    folder was removed. A name that moves is removed and created; `moved` says of the first that this is
    why, if the watch saw it happen. Of a modified one `content` tells whether its content can have changed,
    and `attributes` whether its rights or owner have.
    """

    kind: ChangeKind
    path: str
    file: SessionFile | None = None
    moved: bool = False
    content: bool = True
    attributes: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        return as_table(self)


class TreeChange(NamedTuple):
    """A change of a name below the root; the fields are those of a WatchedChange."""

    kind: ChangeKind
    path: str
    moved: bool = False
    content: bool = True
    attributes: bool = False


class FileTree:
    """The folders of one watch, by their paths below its root, which is ""; at most `most` bytes."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._folders: dict[str, dict[str, SessionFile]] = {"": {}}
        self._partial: dict[str, dict[str, SessionFile]] = {}
        self._bytes = 0
        self._partial_bytes = 0

    @property
    def bytes(self) -> int:
        """The memory that it takes, as the budget counts it."""
        return self._bytes + self._partial_bytes

    def replace(self, at: str, files: list[SessionFile], *, more: bool) -> Iterator[TreeChange]:
        """Process the content of a folder, possibly in several parts; yield the changes."""
        if at not in self._partial:
            self._partial[at] = {}
            self._partial_bytes += _folder_weight(at)
        part = self._partial[at]
        self._partial_bytes += sum(map(_weight, files))
        self._partial_bytes -= sum(_weight(part[file.name]) for file in files if file.name in part)
        part.update((file.name, file) for file in files)
        self._check()
        if more:
            return
        after = self._partial.pop(at)
        self._partial_bytes -= sum(map(_weight, after.values())) + _folder_weight(at)
        for name in [name for name in self._folders.get(at, ()) if name not in after]:
            yield from self.change(at, name, None)
        for name, file in after.items():
            yield from self.change(at, name, file)

    def change(
        self,
        at: str,
        name: str,
        file: SessionFile | None,
        *,
        written: bool | None = None,
        moved: bool = False,
    ) -> Iterator[TreeChange]:
        """Process the present entry of a name; yield the changes.

        `written` says whether it was written to; None if the session has not seen that. `moved`: the entry
        with that name has a new name now.
        """
        folder = self._folders.get(at)
        if folder is None:
            return  # it was removed meanwhile
        before, path = folder.get(name), f"{at}/{name}" if at else name
        if before is not None and (file is None or (before.kind == "folder") != (file.kind == "folder")):
            yield from self._remove(at, name, moved=moved)
            before = None
        if file is None:
            return
        folder[name] = file
        self._bytes += _weight(file) - (0 if before is None else _weight(before))
        if file.kind == "folder" and path not in self._folders:
            self._folders[path] = {}
            self._bytes += _folder_weight(path)
        self._check()
        if before is None:
            yield TreeChange("created", path)
        elif written or _differ(before, file):
            content = _content_differs(before, file, written)
            yield TreeChange("modified", path, False, content, _rights(before) != _rights(file))

    def forget_all_but(self, known: FileTree) -> Iterator[TreeChange]:
        """Change to a newer tree; yield the changes."""
        self._partial.clear()
        self._partial_bytes = 0
        for at in [at for at in self._folders if at not in known._folders]:
            above, _, name = at.rpartition("/")
            if at and at in self._folders:
                yield from self.change(above, name, None)
        for at, files in known._folders.items():
            yield from self.replace(at, list(files.values()), more=False)

    def file(self, path: str) -> SessionFile | None:
        """Return the entry at a path below the root."""
        at, _, name = path.rpartition("/")
        return self._folders.get(at, {}).get(name)

    def _remove(self, at: str, name: str, *, moved: bool) -> Iterator[TreeChange]:
        path = f"{at}/{name}" if at else name
        inside = self._without(path) or {}
        self._bytes -= _weight(self._folders[at].pop(name))
        # From the inside out, as programs remove folders; without recursion, they may be deep.
        found, left = [path], [(path, inside)]
        while left:
            here, files = left.pop()
            for below, file in files.items():
                deeper = f"{here}/{below}"
                found.append(deeper)
                self._bytes -= _weight(file)
                if (more := self._without(deeper)) is not None:
                    left.append((deeper, more))
        for each in reversed(found):
            yield TreeChange("removed", each, moved and each == path)

    def _without(self, path: str) -> dict[str, SessionFile] | None:
        """Forget a folder, and return its entries."""
        found = self._folders.pop(path, None)
        if found is not None:
            self._bytes -= _folder_weight(path)
        return found

    def _check(self) -> None:
        if self.bytes > self._most:
            raise ProtocolError(
                "cannot watch files of the session: there are too many", hint="watch a part of them"
            )


def folder_in(told: Mapping[str, Any]) -> str:
    """Return the folder that a report is about, a path below the root.

    Raises:
        ProtocolError: it is not valid.
    """
    at = wire_fields.text(told, "at", "")
    parts = at.split("/") if at else []
    if len(at) > LONGEST_PATH or "\0" in at or any(part in ("", ".", "..") for part in parts):
        raise ProtocolError("cannot understand the session: the path of a folder is not valid")
    return at


def change_weight(change: WatchedChange) -> int:
    """Return the bytes of a queued change."""
    return _CHANGE + _size(change.path)


def _weight(file: SessionFile) -> int:
    return _EACH + _size(file.name) + _size(file.version) + _size(file.target or "")


def _folder_weight(path: str) -> int:
    return _FOLDER + _size(path)


def _size(text: str) -> int:
    """Return the bytes of a text in memory, at most."""
    return len(text) if text.isascii() else 4 * len(text) + _WIDE


def _differ(before: SessionFile, after: SessionFile) -> bool:
    """Compare two of one name. The times of a folder say only that something in it has changed."""
    if before.kind == "folder":
        return _rights(before) != _rights(after)
    return (before.version, before.target, _rights(before)) != (after.version, after.target, _rights(after))


def _content_differs(before: SessionFile, after: SessionFile, written: bool | None) -> bool:
    """Return whether the content can differ; a changed time is not evidence where writes would be seen."""
    if before.kind == "folder":
        return False
    same = (before.kind, before.size, before.target, _number(before)) == (
        (after.kind, after.size, after.target, _number(after))
    )
    return bool(written) or not same or (written is None and before.mtime_ns != after.mtime_ns)


def _rights(file: SessionFile) -> tuple[int, int, int]:
    return file.mode, file.uid, file.gid


def _number(file: SessionFile) -> list[str]:
    """Return the part of a file's version besides its times: its device and inode."""
    return file.version.split(":")[:2]
