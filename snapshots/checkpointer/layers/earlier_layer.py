"""The names of a container's layer in the image of an earlier snapshot, and the difference to the layer now.

An image on top of the earlier one needs only the difference: changed files, and deletions. A name is
unchanged if the kernel's record of it is (`scan.identify`) and was settled when the earlier snapshot was
taken; any doubt counts as a change. Files that are kept apart from images are missing in the earlier one,
so they count as changed each time. Pure but for reading and writing the index.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.snapshots.checkpointer.layers import apart, file_entry
from holdfast.snapshots.checkpointer.layers.file_entry import FileEntry
from holdfast.snapshots.checkpointer.layers.scan import Identity

Found = Mapping[str, tuple[Identity, FileEntry]]
"""A layer, parents before what is in them: identities, empty if they are not settled, and entries."""


_MORE = ("target", "device", "attributes")
"""Fields of an entry that its identity does not say."""
_IDENTITY_FIELDS = 8


class IndexedName(NamedTuple):
    """A name in the earlier image. Its identity is empty if later changes could go unnoticed.

    `more` are fields of its entry that the identity does not say; None in an index of an older version.
    """

    kind: str
    opaque: bool
    identity: Identity
    more: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class LayerDifference:
    """The entries of a layer on top of the earlier image.

    Entries at the positions in `left` are in that image. Further entries of it, about which nothing else is
    to be said, are only counted: `omitted` is their number, and the bytes of their contents in an archive.
    """

    entries: list[FileEntry]
    left: list[int]
    omitted: tuple[int, int]


class EarlierLayer:
    """The names that an earlier image has of a layer. `begin` is called before each pass over the layer."""

    def __init__(self, names: Mapping[str, IndexedName]) -> None:
        """Compare with an index, which can be empty."""
        self._names = names
        self._hiding: set[str] = set()

    @classmethod
    def read(cls, path: Path) -> EarlierLayer:
        """Read an index; without one, no names are known.

        Raises:
            OSError: it cannot be read.
            ValueError, TypeError, LookupError: it is damaged.
        """
        try:
            text = path.read_text()
        except FileNotFoundError:
            return cls({})
        fields = json.loads(text)["names"]
        return cls(
            {
                path: IndexedName(kind, opaque, tuple(identity), more[0] if more else None)
                for path, kind, opaque, identity, *more in fields
            }
        )

    def begin(self) -> None:
        """Begin a pass."""
        self._hiding = set()

    def entries(self) -> dict[str, tuple[Identity, FileEntry]]:
        """Return the entries of the names that need not be examined while their identities are the same."""
        return {
            path: (known.identity, _entry(path, known))
            for path, known in self._names.items()
            if known.more is not None and len(known.identity) == _IDENTITY_FIELDS
        }

    def says(self, path: str, identity: Identity) -> bool:
        """Check whether a name with this identity is among the `entries`."""
        known = self._names.get(path)
        return (
            known is not None
            and known.more is not None
            and len(identity) == _IDENTITY_FIELDS
            and known.identity == identity
        )

    def has(self, item: FileEntry, identity: Identity) -> bool:
        """Check whether the image has a name unchanged. The folders above it must be checked first.

        A folder that now hides what the image has below it needs all of its names again.
        """
        known = self._names.get(item.path)
        above = item.path.rpartition("/")[0]
        hidden = above in self._hiding
        if item.kind == file_entry.DIRECTORY and (hidden or _hides(item, known)):
            self._hiding.add(item.path)
            return False
        return not hidden and known is not None and known.kind == item.kind and known.identity == identity

    def difference(self, found: Found, same: Collection[str]) -> LayerDifference:
        """Return the entries of the layer that need to be listed, with a deletion for each removed name.

        Args:
            found: the layer after its last pass.
            same: the names for which `has` was true, and whose contents were not copied.
        """
        if not self._names:
            return LayerDifference([item for _, item in found.values()], [], (0, 0))
        removed = [path for path in self._names if path not in found and self._is_in_image(path, found)]
        parted = {item.group for _, item in found.values() if item.group and item.path not in same}
        new = {path for path, (_, item) in found.items() if path not in same or item.group in parted}
        for path in [*new, *removed]:
            while (path := path.rpartition("/")[0]) and path not in new:
                new.add(path)
        entries: list[FileEntry] = []
        left: list[int] = []
        omitted = size = 0
        for path, (_, item) in found.items():
            if path in new:
                entries.append(self._written(item))
            elif apart.is_only_in_archive(item):
                omitted, size = omitted + 1, size + file_entry.in_archive(item)
            else:
                left.append(len(entries))
                entries.append(item)
        entries += (FileEntry(path, file_entry.WHITEOUT) for path in removed)
        return LayerDifference(entries, left, (omitted, size))

    def _is_in_image(self, path: str, found: Found) -> bool:
        """Check whether the image shows a removed name, in a folder that still exists."""
        if self._names[path].kind in (file_entry.WHITEOUT, file_entry.SOCKET) or apart.is_unnameable(path):
            return False
        above = path.rpartition("/")[0]
        if above in self._hiding:
            return False
        return not above or (above in found and found[above][1].kind == file_entry.DIRECTORY)

    def _written(self, item: FileEntry) -> FileEntry:
        """Return an entry for a layer above the earlier image."""
        if item.kind != file_entry.DIRECTORY:
            return item
        known = self._names.get(item.path)
        if known is not None and known.kind != file_entry.DIRECTORY:
            return item if item.opaque else replace(item, opaque=True)
        # What is below an opaque folder in the image is the layer's own, and remains.
        is_opaque = item.opaque and (known is None or item.path in self._hiding)
        return item if item.opaque == is_opaque else replace(item, opaque=is_opaque)


def _entry(path: str, known: IndexedName) -> FileEntry:
    if known.kind == file_entry.WHITEOUT:
        return FileEntry(path, known.kind)
    inode, _, _, mtime, size, mode, uid, gid = known.identity
    made = FileEntry(path, known.kind, stat.S_IMODE(mode), uid, gid, mtime, opaque=known.opaque)
    if known.kind == file_entry.FILE:
        made.size = size
    elif known.kind == file_entry.SOCKET:
        made.group = str(inode)
    for name, value in (known.more or {}).items():
        setattr(made, name, value)
    return made


def _hides(item: FileEntry, known: IndexedName | None) -> bool:
    if known is not None and known.kind != file_entry.DIRECTORY:
        return True
    return item.opaque and (known is None or not known.opaque)


def write_index(path: Path, found: Found, mapped: Collection[str]) -> None:
    """Write the index of an image that is made of a layer.

    A file that is mapped for writing can change without a trace, under each of its names; so can a file that
    was not settled under one of them.
    """
    items = [item for _, item in found.values()]
    beside = apart.kept_whole(items)
    unsure = {item.path for item in items if not found[item.path][0] or item.path in mapped}
    unsure |= {item.path for item in items if item.path in beside}
    groups = {item.group for item in items if item.group and item.path in unsure}
    names = [
        (item.path, item.kind, item.opaque, (), {})
        if item.path in unsure or item.group in groups
        else (
            item.path,
            item.kind,
            item.opaque,
            identity,
            {name: value for name in _MORE if (value := getattr(item, name))},
        )
        for identity, item in found.values()
    ]
    path.write_text(json.dumps({"names": names}))
