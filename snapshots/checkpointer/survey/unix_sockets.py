"""Unix sockets of a capture: the names of their files, and connections with one end missing.

Programs bind a temporary name and rename it, link it, or move its folder; the kernel keeps the first name,
and CRIU binds that. A capture notes the others, by the numbers of inodes in the layer that is copied
anyway; a restore has the guard give them to the files (guard_sockets.c). That is not possible for files
elsewhere, and CRIU does not resolve a relative name that its file no longer has: `astray_files` finds
these. The kernel opens a socket's file for processes with the right to configure networks (SIOCUNIXFILE).

CRIU notes the listener as the other end of a connection that is not accepted yet, and writes it whether or
not the listener itself is in the images. No restore can make that (`without_peer`).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from holdfast.procfs.socket_tables import SocketRow
from holdfast.snapshots.checkpointer.ground import diag, pidfd_files
from holdfast.snapshots.checkpointer.layers import scan
from holdfast.snapshots.checkpointer.record import ImagesUnreadable, text
from holdfast.snapshots.checkpointer.survey.seen import SeenProcess

MOST = 100
"""Sockets with such names."""
LONGEST = 103
"""Bytes of the name that one was bound by: an index follows it in 108 (unix(7))."""
MOST_TEXT = 48 << 10
"""Bytes of all names together; they are given to the guard in its environment."""
_ESTABLISHED, _DATAGRAM = 1, 2
_SIOCUNIXFILE = 0x89E0
_DELETED = " (deleted)"
_OF_SUPERVISOR = "/run/holdfast/guest.sock"
"""It is closed before a capture, and bound again afterwards (`runtime/guest/layout.py` names it)."""


class TooManyNames(OSError):
    """There are more than a copy can hold."""


def note_names(init_pid: int, entries: Iterable[Any], layer: Mapping[int, list[str]]) -> dict[str, list[str]]:
    """Return the names of files of sockets in a capture, by the sockets' inodes; the usual ones are left out.

    `layer` are names of sockets in the session's layer by the numbers of their inodes there.

    Raises:
        TooManyNames: the error names one.
    """
    bound = {entry.usk.ino: _bound(entry.usk) for entry in entries if entry.HasField("usk")}
    bound = {inode: name for inode, name in bound.items() if name}
    if not bound or not layer:
        return {}
    overlay = os.stat(f"/proc/{init_pid}/root").st_dev  # noqa: PTH116 - a magic link, not a path
    device = os.major(overlay) << 20 | os.minor(overlay)
    short = {number & 0xFFFFFFFF: names for number, names in layer.items()}
    found: dict[str, list[str]] = {}
    for inode, (number, where) in diag.files(init_pid).items():
        names = [f"/{name}" for name in short.get(number, ())] if where == device else []
        if inode in bound and names and names != [bound[inode]]:
            found[str(inode)] = sorted(names)
            if len(bound[inode].encode("utf-8", "surrogateescape")) > LONGEST or len(found) > MOST:
                raise TooManyNames(f"the file of the socket {bound[inode][:200]!r} was renamed or linked")
    if sum(len(os.fsencode(name)) for names in found.values() for name in names) > MOST_TEXT:
        raise TooManyNames(f"files of sockets were renamed, {next(iter(found.values()))[0][:200]!r} for one")
    return found


def checked_names(noted: Any) -> dict[int, list[str]]:
    """Check the notes of a capture, which can come from elsewhere.

    Raises:
        ImagesUnreadable: no capture notes that.
    """
    noted = {} if noted is None else noted
    if not isinstance(noted, dict) or len(noted) > MOST:
        raise ImagesUnreadable("the names of its sockets are not valid")
    for inode, names in noted.items():
        is_valid = isinstance(names, list) and all(
            isinstance(name, str) and name.startswith("/") and "\0" not in name for name in names
        )
        if not str(inode).isdecimal() or not names or not is_valid:
            raise ImagesUnreadable("the names of its sockets are not valid")
    if sum(len(name) for names in noted.values() for name in names) > MOST_TEXT:
        raise ImagesUnreadable("the names of its sockets are too long")
    return {int(inode): names for inode, names in noted.items()}


def give_names(entries: Iterable[Any], noted: Mapping[int, list[str]]) -> dict[str, str]:
    """Edit file entries so that the guard can distinguish the sockets; return the guard's input."""
    parts: list[str] = []
    for entry in entries:
        if entry.HasField("usk") and entry.usk.ino in noted and (name := _bound(entry.usk)):
            names = [each for each in noted[entry.usk.ino] if each != name]
            keeps = int(len(names) < len(noted[entry.usk.ino]))
            parts.append(f"{len(parts)} {keeps} {','.join(os.fsencode(each).hex() for each in names)}")
            own = bytes(entry.usk.name).split(b"\0")[0]
            entry.usk.name = own + b"\0" + str(len(parts) - 1).encode()
            entry.usk.deleted = True
    return {"HOLDFAST_SOCKETS": " ".join(parts)} if parts else {}


def _bound(socket: Any) -> str:
    """Return the absolute name by which CRIU binds a socket; empty if it does not."""
    name = os.fsdecode(bytes(socket.name).split(b"\0")[0])
    if not name or (socket.state == _ESTABLISHED and socket.type != _DATAGRAM):
        return ""
    folder = text(socket.name_dir) if socket.HasField("name_dir") else ""
    return name if name.startswith("/") else f"{folder.rstrip('/')}/{name}"


def noted_paths(noted: Mapping[int, list[str]]) -> Iterator[str]:
    """Yield all those names: links in them must not lead out of the session."""
    for names in noted.values():
        yield from names


def astray_files(
    init: int, sockets: Mapping[int, SocketRow], processes: Iterable[SeenProcess]
) -> frozenset[int]:
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
    is_short = len(os.fsencode(bound)) <= LONGEST
    return not (in_layer and is_short and scan.layers_of(init) is not None)


def without_peer(entries: Iterable[Any]) -> int:
    """Return the inode of a socket whose other end is not among a capture's file entries; 0 if all are."""
    peers = {entry.usk.ino: entry.usk.peer for entry in entries if entry.HasField("usk")}
    return next((number for number, peer in peers.items() if peer and peer not in peers), 0)
