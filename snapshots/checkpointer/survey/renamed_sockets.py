"""The names that files of unix sockets have, where they are not the ones that the sockets were bound by.

Programs bind a temporary name and rename it, link it, or move its folder; the kernel keeps the first name,
and CRIU binds that. A capture notes the others, by the numbers of inodes in the layer that is copied anyway;
a restore has the guard give them to the files (guard_sockets.c).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from holdfast.snapshots.checkpointer.ground import diag
from holdfast.snapshots.checkpointer.record import ImagesUnreadable, text

MOST = 100
"""Sockets with such names."""
LONGEST = 103
"""Bytes of the name that one was bound by: an index follows it in 108 (unix(7))."""
MOST_TEXT = 48 << 10
"""Bytes of all names together; they are given to the guard in its environment."""
_ESTABLISHED, _DATAGRAM = 1, 2


class TooManyNames(OSError):
    """There are more than a copy can be given."""


def note(init_pid: int, entries: Iterable[Any], layer: Mapping[int, list[str]]) -> dict[str, list[str]]:
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


def checked(noted: Any) -> dict[int, list[str]]:
    """Check what a capture has noted, which may come from elsewhere.

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


def give(entries: Iterable[Any], noted: Mapping[int, list[str]]) -> dict[str, str]:
    """Edit file entries so that the guard can tell the sockets apart; return what it has to know."""
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


def paths(noted: Mapping[int, list[str]]) -> Iterator[str]:
    """Yield all those names: links in them must not lead out of the session."""
    for names in noted.values():
        yield from names
