"""A parser of /proc/PID/maps, see proc_pid_maps(5). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.base.value_classes import dataclass
from holdfast.procfs.descriptor_links import DELETED

_LINE = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) ([rwxsp-]{4}) ([0-9a-f]+) ([0-9a-f]+):([0-9a-f]+) (\d+)[ ]*(.*)$",
    re.MULTILINE,
)
# Neither anonymous memory nor a file that still has its name: a process has thousands of those.
_NOTABLE = re.compile(
    rb"^.+ (?:/dev/|/SYSV|/memfd:|/anon_hugepage|/\[|anon_inode:|socket:|/.* \(deleted\)$).*$",
    re.MULTILINE,
)

# One of these is in each of them; most processes have none.
_WORDS = (b"/dev/", b"/SYSV", b"/memfd:", b"/anon_hugepage", b"/[", b"anon_inode:", b"socket:", b"(deleted)")


@dataclass(frozen=True, slots=True)
class Mapping:
    """A part of a process's memory. `path` is without " (deleted)"; newlines in it are written \\012."""

    start: int
    end: int
    permissions: str
    offset: int
    major: int
    minor: int
    inode: int
    path: str
    deleted: bool

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.end - self.start

    @property
    def shared(self) -> bool:
        """True if writes are seen by other processes that map it."""
        return self.permissions.endswith("s")


def parse(data: bytes) -> Iterator[Mapping]:
    """Yield every mapping, in order of address."""
    for found in _LINE.finditer(data):
        start, end, permissions, offset, major, minor, inode, name = found.groups()
        path = name.decode("utf-8", "replace")
        yield Mapping(
            int(start, 16),
            int(end, 16),
            permissions.decode(),
            int(offset, 16),
            int(major, 16),
            int(minor, 16),
            int(inode),
            path.removesuffix(DELETED),
            path.endswith(DELETED),
        )


def notable(data: bytes) -> Iterator[Mapping]:
    """Yield mappings of devices, shared and huge memory, anonymous and deleted files: few of thousands."""
    if not any(word in data for word in _WORDS):
        return
    for line in _NOTABLE.finditer(data):
        yield from parse(line[0])
