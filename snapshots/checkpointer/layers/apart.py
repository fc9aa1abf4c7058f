"""File properties that an image's layer cannot express: kept next to the image, recreated in each copy.

Five things: names that image formats use for deletions (`.wh.NAME`), paths longer than an engine's unpacker
makes, files most of which are holes, which it would fill with zeros, attributes and times that its archives
have no form for, and that names are of one file: an overlay forgets that of what it has below when one of
them is written to, and makes a pipe of its own for each. Pure except for reading and writing `apart.json`
and `apart.data`; the host and the checkpointer use it. The files read here can come from another machine.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.procfs import bounded
from holdfast.snapshots.checkpointer.layers import contents, file_entry
from holdfast.snapshots.checkpointer.layers.file_entry import FileEntry

FILES = LIST, DATA = ("apart.json", "apart.data")
MOST_TEXT = 64 << 20
"""Bytes of the list."""
LONGEST_PATH = 4095 - 256
"""Bytes of a path that an engine unpacks, below a folder of its own."""
LEAST_HOLES = 1 << 20
"""Bytes of holes in a file for which it is kept next to the image."""
MOST_CONTENT = 1 << 30
"""Bytes that a file can hold if its holes are fewer: each copy writes them, while it shares an image's."""
MOST_NAMES, MOST_SHARED = 2000, 64 << 20
"""Names of files with several, and bytes of their contents, that each copy makes one of; the latest first."""
_HELD = "link_remap."
"""The beginning of CRIU's names for files whose name was removed while they were open."""
_KINDS = (
    *(file_entry.FILE, file_entry.DIRECTORY, file_entry.LINK, file_entry.FIFO),
    *(file_entry.TOUCH, file_entry.SAME),
)


def divided(entries: Iterable[FileEntry]) -> tuple[list[FileEntry], list[FileEntry]]:
    """Divide a layer: the part that an archive can hold, and the rest; both in their order.

    Where a whole name is kept apart, the layer hides the lower layers' entry. Names of one file stay
    together.

    Raises:
        OSError: something can be kept neither way; the error names it.
    """
    entries = list(entries)
    whole = kept_whole(entries)
    layer: list[FileEntry] = []
    beside: list[FileEntry] = []
    for item in entries:
        if item.kind in (file_entry.WHITEOUT, file_entry.SOCKET):
            # A socket is bound again by a restored process, and finds its name free.
            if not is_unnameable(item.path):
                layer.append(FileEntry(item.path, file_entry.WHITEOUT))
            continue
        if item.path in whole:
            if item.kind not in _KINDS:
                raise OSError(
                    f"cannot keep {shown(item.path)}: it is a device with a name that images cannot hold"
                )
            beside.append(item)
            if not is_unnameable(item.path):
                layer.append(FileEntry(item.path, file_entry.WHITEOUT))
            continue
        layer.append(item)
        if (attributes := unsaid(item)) or item.mtime < 0:
            beside.append(FileEntry(item.path, file_entry.TOUCH, mtime=item.mtime, attributes=attributes))
    return layer, [*beside, *_of_one_file(layer)]


def kept_whole(entries: Sequence[FileEntry]) -> set[str]:
    """Return the paths kept separately, with all their properties. Names of one file stay together."""
    groups = {item.group for item in entries if item.group and (_is_special(item) or unsaid(item))}
    return {item.path for item in entries if _is_special(item) or item.group in groups}


def _of_one_file(layer: Iterable[FileEntry]) -> Iterator[FileEntry]:
    """Yield names in a layer that share one file, as many as a copy can link."""
    groups: dict[str, list[FileEntry]] = {}
    for item in layer:
        if item.group and item.kind in (file_entry.FILE, file_entry.FIFO):
            groups.setdefault(item.group, []).append(item)
    names, size = 0, 0
    for group in sorted((each for each in groups.values() if len(each) > 1), key=_is_later, reverse=True):
        names, size = names + len(group), size + group[0].size
        if names > MOST_NAMES or size > MOST_SHARED:
            break
        for item in group:
            yield FileEntry(item.path, file_entry.SAME, mtime=item.mtime, group=item.group)


def _is_later(group: list[FileEntry]) -> tuple[bool, int]:
    """Return the sort key of a group: open files and pipes first, then the last written."""
    is_held = any(item.path.rpartition("/")[2].startswith(_HELD) for item in group)
    return is_held or group[0].kind == file_entry.FIFO, group[0].mtime


def unsaid(item: FileEntry) -> dict[str, str]:
    """Return the attributes of a file that archives cannot express: names with `=`, and empty values."""
    return {name: value for name, value in item.attributes.items() if "=" in name or not value}


def _is_special(item: FileEntry) -> bool:
    return is_unnameable(item.path) or is_sparse(item) or bool(item.group and item.mtime < 0)


def is_only_in_archive(item: FileEntry) -> bool:
    """Check that an entry of a layer is in its archive as it is, and nothing of it is kept separately."""
    if item.kind in (file_entry.WHITEOUT, file_entry.SOCKET) or item.group or item.mtime < 0:
        return False
    return not (item.attributes and unsaid(item)) and not _is_special(item)


def is_unnameable(path: str) -> bool:
    """Check whether archives of a layer cannot hold a name."""
    return (
        path.startswith(file_entry.DELETES)
        or f"/{file_entry.DELETES}" in path
        or (len(path) > LONGEST_PATH // 4 and len(os.fsencode(path)) > LONGEST_PATH)
    )


def is_sparse(item: FileEntry) -> bool:
    """Check whether a file is kept separately for its holes."""
    empty = item.size - item.stored
    return empty >= LEAST_HOLES and item.stored <= max(empty, MOST_CONTENT)


def write(folder: Path, entries: list[FileEntry], data: Path) -> None:
    """Write separately kept files into a folder, with their contents, which are in `data`.

    Raises:
        OSError: it cannot be written, or is more than a copy reads: the error names the folder with most.
    """
    moved: list[FileEntry] = []
    with data.open("rb") as source, (folder / DATA).open("xb") as target:
        os.fchmod(target.fileno(), 0o600)
        end = 0
        there: dict[int, int] = {}
        for item in entries:
            if item.stored and item.offset not in there:
                there[item.offset] = end
                contents.move(source.fileno(), target.fileno(), item.offset, end, item.stored)
                end += item.stored
            moved.append(replace(item, offset=there[item.offset] if item.stored else 0))
    file_entry.write(folder / LIST, moved)
    (folder / LIST).chmod(0o600)
    if (folder / LIST).stat().st_size > MOST_TEXT:
        first = Counter(item.path.split("/")[0] for item in entries).most_common(1)[0][0]
        raise OSError(f"{shown(first)} has more files with unusual names than can be kept")


def read(folder: Path) -> list[FileEntry]:
    """Read the list of separately kept files; empty if there is none.

    Raises:
        OSError: it is not one, or cannot be read.
    """
    try:
        text = bounded.read(folder / LIST, MOST_TEXT)
    except FileNotFoundError:
        return []
    try:
        return [_checked(fields) for fields in json.loads(text)["entries"]]
    except (ValueError, TypeError, LookupError, RecursionError, AttributeError) as error:
        raise OSError(f"{LIST} cannot be read ({error})") from error


def _checked(fields: dict[str, Any]) -> FileEntry:
    item = FileEntry(**fields)
    parts = item.path.split("/")
    if item.kind not in _KINDS or "\0" in item.path or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"it names {shown(item.path)}")
    numbers = (item.mode, item.uid, item.gid, item.mtime, item.size, item.offset)
    if not all(type(number) is int for number in numbers) or min(item.size, item.offset) < 0:
        raise ValueError("a number is not valid")
    if item.kind == file_entry.SAME and not item.group:
        raise ValueError("a name refers to a missing file")
    if not all(isinstance(text, str) for text in (item.target, item.group, *item.attributes.values())):
        raise ValueError("a text is not valid")
    at = 0
    for begin, length in item.holes:
        if not at <= begin < begin + length <= item.size:
            raise ValueError("a hole lies outside its file")
        at = begin + length
    return item


def shown(path: str) -> str:
    """Return a path of a session for an error: absolute, and no longer than a line."""
    return repr(f"/{path}" if len(path) <= 200 else f"/{path[:120]}...{path[-60:]}")
