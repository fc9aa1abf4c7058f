"""A parser of /proc/PID/mountinfo, see proc_pid_mountinfo(5). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.base.value_classes import dataclass

_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class MountedPart:
    """A mounted file system, or a part of one: `root` is the part's path in it, `point` the mount point.

    `options` are those of the file system, separated by commas and escaped as the kernel writes them.
    """

    id: int
    parent: int
    major: int
    minor: int
    root: str
    point: str
    kind: str
    writable: bool
    options: str = ""


def parse(data: bytes) -> Iterator[MountedPart]:
    """Yield every mount, in the order they were made."""
    for line in data.decode("utf-8", "replace").split("\n"):
        before, _, after = line.partition(" - ")
        fields, options = before.split(" "), after.split(" ")
        if len(fields) < 6 or not options[0]:
            continue
        major, _, minor = fields[2].partition(":")
        if not all(word.isdecimal() for word in (fields[0], fields[1], major, minor)):
            continue
        yield MountedPart(
            int(fields[0]),
            int(fields[1]),
            int(major),
            int(minor),
            _plain(fields[3]),
            _plain(fields[4]),
            options[0],
            "ro" not in fields[5].split(","),
            options[2] if len(options) > 2 else "",
        )


def in_place(mount: MountedPart, root: MountedPart) -> bool:
    """Check whether a mount shows files of the root's file system, in their original places.

    So are the folders mounted that stay writable below a read-only root.
    """
    same = (mount.major, mount.minor) == (root.major, root.minor)
    return same and mount.root == root.root.rstrip("/") + mount.point


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)
