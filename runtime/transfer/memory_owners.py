"""The owners of memory in process images, according to CRIU's own tables. Used only to name a place.

Reads the head of `pagemap-PID.img`: two magic numbers, a length, and a message whose first field is the
number of the file with the pages (criu/images/pagemap.proto). Memory that cannot be attributed has no owner.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.base.text import plain
from holdfast.snapshots.record import StateRecord

_TABLE = re.compile(r"images/pagemap-(shmem-)?(\d{1,10})\.img")
_PAGES = re.compile(r"images/pages-(\d{1,10})\.img")
_HEAD = struct.Struct("<III")
_FIRST_FIELD = 0x08
_KINDS = (
    ("images/ghost-file-", "files that were open and had no name"),
    ("images/pipes-data", "pipes"),
    ("images/fifo-data", "pipes"),
    ("images/sk-queues", "sockets"),
    ("images/tcp-stream-", "connections"),
    ("images/tty-", "terminals"),
    ("images/beyond-", "terminals"),
    ("record.json.gz", "the record of its processes"),
    ("baseline.json.gz", "the record of its files"),
    ("apart.", "files that its image cannot have"),
)


def owners(folder: Path, names: Sequence[str], known: StateRecord | None) -> dict[str, str]:
    """Return the files with pages of memory, and their owners in words."""
    commands = {one.pid: one.name for one in known.tree.processes} if known is not None else {}
    found: dict[str, str] = {}
    for name in names:
        if (table := _TABLE.fullmatch(name)) and (number := _pages(folder / name)) is not None:
            pid = int(table[2])
            process = f"memory of {plain(commands.get(pid) or 'a process', 20)} (pid {pid})"
            found[f"images/pages-{number}.img"] = "shared memory of programs" if table[1] else process
    return found


def place(name: str, owned: dict[str, str]) -> tuple[str, str]:
    """Return the place of a finding in a file of a snapshot, and the kind of that file."""
    if name in owned or _PAGES.fullmatch(name):
        return owned.get(name, "memory of programs"), "memory"
    for begin, words in _KINDS:
        if name.startswith(begin):
            return words, "images" if name.startswith("images/") else "record"
    return "tables of its processes", "images"


def _pages(path: Path) -> int | None:
    data = b""
    with suppress(OSError), path.open("rb") as file:
        data = file.read(64)
    if len(data) < _HEAD.size:
        return None
    _, _, size = _HEAD.unpack_from(data)
    message = data[_HEAD.size : _HEAD.size + min(size, 20)]
    if not message or message[0] != _FIRST_FIELD:
        return None
    number = 0
    for shift, byte in enumerate(message[1:6]):
        number |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return number
    return None
