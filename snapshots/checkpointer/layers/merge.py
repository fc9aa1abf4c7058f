"""Puts several layers together into one that has the same effect.

Pure. An engine stacks a limited number of layers (overlayfs: about 120); before that, those above the image a
session was once made from become one.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.snapshots.checkpointer.layers import file_entry
from holdfast.snapshots.checkpointer.layers.file_entry import FileEntry


def merged(layers: Iterable[Iterable[FileEntry]]) -> list[FileEntry]:
    """Merge layers, given from the lowest to the topmost, into one; parents come before what is in them."""
    found: dict[str, FileEntry] = {}
    for layer in layers:
        for item in layer:
            _put(found, item)
    return [found[path] for path in sorted(found, key=lambda path: path.split("/"))]


def _put(found: dict[str, FileEntry], item: FileEntry) -> None:
    below = found.get(item.path)
    if below is not None and (item.kind != file_entry.DIRECTORY or item.opaque):
        _cut(found, item.path)
    elif below is not None and (below.kind != file_entry.DIRECTORY or below.opaque):
        # An entry that was not a directory hid everything below it, and so does the directory in its place.
        item.opaque = True
    found[item.path] = item


def _cut(found: dict[str, FileEntry], path: str) -> None:
    inside = path + "/"
    for name in [name for name in found if name.startswith(inside)]:
        del found[name]
