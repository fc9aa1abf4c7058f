"""The record of one file of a layer, and its form on disk.

Pure, and also what the host reads: `layer/entries.json` and `layer/data` in a staging folder. The contents of
all files are one after the other in `data`; an entry says where its own are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

FOLDER = "layer"
DATA = "data"
ENTRIES = "entries.json"
FIRST = "first.json"

FILE, DIRECTORY, LINK, FIFO, CHARACTER, BLOCK, WHITEOUT = (
    "file",
    "directory",
    "link",
    "fifo",
    "character",
    "block",
    "whiteout",
)


@dataclass(slots=True)
class FileEntry:
    """One name. Times are in nanoseconds, `offset` is that of the contents in `data`.

    `target` is that of a symbolic link. Names of the same file are of the same `group`; a file with a single
    name has none. Attributes are kept as text, one character to a byte. A directory that is `opaque` hides
    what lower layers have below it.
    """

    path: str
    kind: str
    mode: int = 0
    uid: int = 0
    gid: int = 0
    mtime: int = 0
    size: int = 0
    device: int = 0
    offset: int = 0
    target: str = ""
    group: str = ""
    opaque: bool = False
    attributes: dict[str, str] = field(default_factory=dict)


_FIELDS = tuple(each.name for each in fields(FileEntry))


def as_fields(item: FileEntry) -> dict[str, Any]:
    """Return the fields of an entry that differ from the defaults."""
    return {name: value for name in _FIELDS if (value := getattr(item, name)) or name in ("path", "kind")}


def write(path: Path, entries: list[FileEntry], **facts: Any) -> None:
    """Write entries and facts about them."""
    path.write_text(json.dumps({"entries": [as_fields(item) for item in entries], **facts}))


def read(path: Path) -> tuple[list[FileEntry], dict[str, Any]]:
    """Read what `write` wrote. Names that are not UTF-8 come back unchanged."""
    found = json.loads(path.read_text())
    return [FileEntry(**item) for item in found.pop("entries")], found
