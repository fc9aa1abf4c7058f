"""Which unix sockets have a file that was renamed or linked in a way that a copy cannot repeat.

A copy binds a socket by its first name, and gives its file the names that it has in the layer
(`renamed_sockets.py`). That is not possible for files elsewhere, and CRIU does not resolve a relative name
that its file no longer has. The kernel opens a socket's file for whom may configure networks (SIOCUNIXFILE).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Mapping

from holdfast.procfs.socket_tables import SocketRow
from holdfast.snapshots.checkpointer.ground import pidfd_files
from holdfast.snapshots.checkpointer.layers import where
from holdfast.snapshots.checkpointer.survey import renamed_sockets
from holdfast.snapshots.checkpointer.survey.seen import SeenProcess

_SIOCUNIXFILE = 0x89E0
_DELETED = " (deleted)"
_OF_SUPERVISOR = "/run/holdfast/guest.sock"
"""It is closed before a capture, and bound again afterwards (`runtime/guest/layout.py` names it)."""


def astray(init: int, sockets: Mapping[int, SocketRow], processes: Iterable[SeenProcess]) -> frozenset[int]:
    """Return the inodes of those sockets, of all that processes have a descriptor of."""
    suspects = {inode: one for inode, one in sockets.items() if _has_file(one) and not _is_there(init, one)}
    found: set[int] = set()
    for process in processes if suspects else ():
        for one in process.descriptors:
            row = suspects.pop(one.link.inode, None) if one.link.kind == "socket" else None
            if row is not None and _is_astray(init, process.pid, one.number, row.local):
                found.add(row.inode)
    return frozenset(found)


def _has_file(one: SocketRow) -> bool:
    """Check whether a restore binds a socket by the name of a file."""
    if not one.protocol.startswith("unix") or not one.local or one.local.startswith("@"):
        return False
    if one.local == _OF_SUPERVISOR:
        return False
    return one.state != "established" or one.protocol == "unix datagram"


def _is_there(init: int, one: SocketRow) -> bool:
    try:
        found = os.lstat(f"/proc/{init}/root{one.local}") if one.local.startswith("/") else None
    except OSError:
        return False
    return found is not None and found.st_ino & 0xFFFFFFFF == one.file[0] and found.st_nlink == 1


def _is_astray(init: int, pid: int, number: int, bound: str) -> bool:
    try:
        ours = pidfd_files.copy(pid, number)
    except OSError:  # it is gone
        return False
    try:
        file = fcntl.ioctl(ours, _SIOCUNIXFILE)
    except OSError:  # it has no file any more
        return False
    finally:
        os.close(ours)
    try:
        found, path = os.fstat(file), os.readlink(f"/proc/self/fd/{file}")  # noqa: PTH115 - of no file
    finally:
        os.close(file)
    name = path.removesuffix(_DELETED)
    if not bound.startswith("/") and not name.endswith(f"/{bound}"):
        return found.st_nlink > 0
    is_named_so = name == path and (name == bound or not bound.startswith("/")) and found.st_nlink == 1
    if is_named_so or not found.st_nlink:
        return False
    in_layer = found.st_dev == os.stat(f"/proc/{init}/root").st_dev  # noqa: PTH116 - a magic link, not a path
    is_short = len(os.fsencode(bound)) <= renamed_sockets.LONGEST
    return not (in_layer and is_short and where.layers(init) is not None)
