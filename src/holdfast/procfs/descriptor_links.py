"""A parser of the links in /proc/PID/fd and /proc/PID/ns. Pure.

See proc_pid_fd(5) and namespaces(7). A path is the name of a file, not its kind: that takes stat(2).
"""

from __future__ import annotations

import re

from holdfast.base.value_classes import dataclass

_NUMBERED = re.compile(r"([a-z_]+):\[(\d+)\]")
_ANONYMOUS = re.compile(r"anon_inode:\[?([^\]]*)\]?")
_NAMESPACES = frozenset({"cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"})
DELETED = " (deleted)"


@dataclass(frozen=True, slots=True)
class DescriptorTarget:
    """The target of a descriptor.

    `kind` is `path`, `memfd`, `socket`, `pipe`, `anon`, `namespace` or `other`. `name` is the path, the
    name of a memfd, the kind of anonymous file (`eventfd`, `eventpoll`, `io_uring`, …) or of namespace;
    `inode` is the number of a file without a name, else 0. `deleted` is the kernel's mark after the name: a
    file may really have that name.
    """

    kind: str
    name: str
    inode: int = 0
    deleted: bool = False


def parse(target: str) -> DescriptorTarget:
    """Return the target that the text of a link names."""
    deleted = target.endswith(DELETED)
    if target.startswith("/memfd:"):
        return DescriptorTarget(
            "memfd", target.removeprefix("/memfd:").removesuffix(DELETED), deleted=deleted
        )
    if target.startswith("/"):
        return DescriptorTarget("path", target.removesuffix(DELETED), deleted=deleted)
    numbered = _NUMBERED.fullmatch(target)
    if numbered is not None:
        kind, inode = numbered[1], int(numbered[2])
        if kind in ("socket", "pipe"):
            return DescriptorTarget(kind, kind, inode)
        if kind == "pidfd":
            return DescriptorTarget("anon", kind, inode)
        return DescriptorTarget("namespace" if kind in _NAMESPACES else "other", kind, inode)
    anonymous = _ANONYMOUS.fullmatch(target)
    if anonymous is not None:
        return DescriptorTarget("anon", anonymous[1].strip("[]"))
    return DescriptorTarget("other", target)


def namespace(target: str) -> int:
    """Return the number in a link of /proc/PID/ns, "net:[4026531840]"; 0 if there is none."""
    numbered = _NUMBERED.fullmatch(target)
    return int(numbered[2]) if numbered is not None else 0
