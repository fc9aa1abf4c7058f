"""The names of a container's layer in the image of an earlier snapshot, and the difference to the layer now.

An image on top of the earlier one needs only the difference: changed files, and deletions. A name is
unchanged if the kernel's record of it is (`scan.identify`) and was settled when the earlier snapshot was
taken; any doubt counts as a change. Files that are kept apart from images are missing in the earlier one,
so they count as changed each time. Pure but for reading and writing the index.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from holdfast.snapshots.checkpointer.layers import apart, file_entry
from holdfast.snapshots.checkpointer.layers.file_entry import FileEntry
from holdfast.snapshots.checkpointer.layers.scan import Identity

Found = Mapping[str, tuple[Identity, FileEntry]]
"""A layer, parents before what is in them: identities, empty if they are not settled, and entries."""


class IndexedName(NamedTuple):
    """A name in the earlier image. Its identity is empty if later changes could go unnoticed."""

    kind: str
    opaque: bool
    identity: Identity


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
        return cls({each[0]: IndexedName(str(each[1]), bool(each[2]), tuple(each[3])) for each in fields})

    def begin(self) -> None:
        """Begin a pass."""
        self._hiding = set()

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

    def difference(self, found: Found, same: Collection[str]) -> tuple[list[FileEntry], list[int]]:
        """Return the entries of the layer, a deletion for each removed name, and the superfluous positions.

        Args:
            found: the layer after its last pass.
            same: the names for which `has` was true, and whose contents were not copied.
        """
        if not self._names:
            return [item for _, item in found.values()], []
        removed = [path for path in self._names if path not in found and self._is_in_image(path, found)]
        parted = {item.group for _, item in found.values() if item.group and item.path not in same}
        new = {path for path, (_, item) in found.items() if path not in same or item.group in parted}
        for path in [*new, *removed]:
            while (path := path.rpartition("/")[0]) and path not in new:
                new.add(path)
        entries = [self._written(item) if path in new else item for path, (_, item) in found.items()]
        left = [position for position, item in enumerate(entries) if item.path not in new]
        return [*entries, *(FileEntry(path, file_entry.WHITEOUT) for path in removed)], left

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
        (item.path, item.kind, item.opaque, () if item.path in unsure or item.group in groups else identity)
        for identity, item in found.values()
    ]
    path.write_text(json.dumps({"names": names}))
