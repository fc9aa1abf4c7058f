"""The record of one file of a layer, and its form on disk.

Pure, and also what the host reads: `layer/entries.json` and `layer/data` in a staging folder. The contents of
all files are one after the other in `data`; an entry says where its own are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

FOLDER = "layer"
DATA = "data"
ENTRIES = "entries.json"
FIRST = "first.json"
BELOW = "below.json"
"""The index of an earlier image: the copy leaves its files out."""
INDEX = "index.json"
"""The index of the image of this copy."""
LEFT = "left"
"""The positions of the entries in the image below."""
OMITTED = "omitted"
"""How many more entries are in the image below, and the bytes of their contents in an archive."""
_BLOCK = 512

FILE, DIRECTORY, LINK, FIFO, CHARACTER, BLOCK, WHITEOUT, SOCKET, TOUCH, SAME = (
    "file",
    "directory",
    "link",
    "fifo",
    "character",
    "block",
    "whiteout",
    "socket",
    "touch",
    "same",
)
"""A whiteout hides the name in the layers below. A `touch` only has attributes and a time for a name,
and a `same` makes it one with the other names of its group."""
DELETES, HIDES = ".wh.", ".wh..wh..opq"
"""In an archive of a layer: the prefix of a name that is deleted from the layers below, and the name by which
a folder hides everything that these have in it."""
LINKED = (FILE, LINK, FIFO, CHARACTER, BLOCK)
"""What may have several names. Those of a socket are noted otherwise (`unix_sockets`)."""


@dataclass(slots=True)
class FileEntry:
    """One name. Times are in nanoseconds, `offset` is the place of the contents in `data`.

    `holes` are parts of a file without contents there, as offsets in the file and lengths. `target` is a
    symbolic link's. Names of the same file are of the same `group`; a file with a single name has none, and
    a socket the number of its inode. Attributes are kept as text, one character to a byte. A directory that
    is `opaque` hides what lower layers have below it.
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
    holes: list[list[int]] = field(default_factory=list)

    @property
    def stored(self) -> int:
        """Bytes of its contents in `data`."""
        return self.size - sum(length for _, length in self.holes)

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Yield the parts of a file that have contents: offsets in the file and lengths, in their order."""
        at = 0
        for begin, length in [*self.holes, [self.size, 0]]:
            if begin > at:
                yield at, begin - at
            at = begin + length


def in_archive(item: FileEntry) -> int:
    """Return the bytes of an entry's contents in an archive, which has whole blocks."""
    return item.size + -item.size % _BLOCK


_FIELDS = tuple(each.name for each in fields(FileEntry))


def as_fields(item: FileEntry) -> dict[str, Any]:
    """Return the fields of an entry that differ from the defaults."""
    return {name: value for name in _FIELDS if (value := getattr(item, name)) or name in ("path", "kind")}


def write(path: Path, entries: list[FileEntry], **facts: Any) -> None:
    """Write entries and facts about them."""
    path.write_text(json.dumps({"entries": [as_fields(item) for item in entries], **facts}))


def read(path: Path) -> tuple[list[FileEntry], dict[str, Any]]:
    """Read the result of `write`. Names that are not UTF-8 come back unchanged."""
    found = json.loads(path.read_text())
    return [FileEntry(**item) for item in found.pop("entries")], found
