"""Tells what the links of /proc/PID/fd and /proc/PID/ns point at. Pure.

See proc_pid_fd(5) and namespaces(7). A path says what a file is called, not what it is: that takes stat(2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBERED = re.compile(r"([a-z_]+):\[(\d+)\]")
_ANONYMOUS = re.compile(r"anon_inode:\[?([^\]]*)\]?")
_NAMESPACES = frozenset({"cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"})
DELETED = " (deleted)"


@dataclass(frozen=True, slots=True)
class Link:
    """Where a descriptor leads.

    `kind` is `path`, `memfd`, `socket`, `pipe`, `anon`, `namespace` or `other`. `name` is the path, what a
    memfd was called, which anonymous file it is (`eventfd`, `eventpoll`, `io_uring`, …), or which namespace;
    `inode` the number of what has no name, else 0. `deleted` says what the kernel wrote behind the name: a
    file may really be called so.
    """

    kind: str
    name: str
    inode: int = 0
    deleted: bool = False


def parse(target: str) -> Link:
    """What the link of a descriptor says."""
    deleted = target.endswith(DELETED)
    if target.startswith("/memfd:"):
        return Link("memfd", target.removeprefix("/memfd:").removesuffix(DELETED), deleted=deleted)
    if target.startswith("/"):
        return Link("path", target.removesuffix(DELETED), deleted=deleted)
    numbered = _NUMBERED.fullmatch(target)
    if numbered is not None:
        kind, inode = numbered[1], int(numbered[2])
        if kind in ("socket", "pipe"):
            return Link(kind, kind, inode)
        if kind == "pidfd":
            return Link("anon", kind, inode)
        return Link("namespace" if kind in _NAMESPACES else "other", kind, inode)
    anonymous = _ANONYMOUS.fullmatch(target)
    if anonymous is not None:
        return Link("anon", anonymous[1].strip("[]"))
    return Link("other", target)


def namespace(target: str) -> int:
    """The number in a link of /proc/PID/ns, "net:[4026531840]"; 0 if there is none."""
    numbered = _NUMBERED.fullmatch(target)
    return int(numbered[2]) if numbered is not None else 0
