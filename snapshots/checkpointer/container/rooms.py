"""Mounts and unmounts the small file systems in which sessions share a folder with the host.

A room is a tmpfs with limits in bytes and inodes: what a session writes to its shared folder can fill that
and nothing else, and the memory it takes is charged to the session (the kernel's memory controller charges a
page of a tmpfs to the group that touches it first). Mounting needs CAP_SYS_ADMIN: a controller that runs as
root calls this module in its own process; for others the checkpointer does, after entering the engine's mount
namespace. Knows nothing of sessions.
"""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.snapshots.checkpointer.ground import folders, mounting, separate_process
from holdfast.snapshots.checkpointer.wire import requests
from holdfast.snapshots.checkpointer.wire.channel import HostChannel

SIZE = 32 << 20
"""Bytes. The copy of the journal takes at most half of it; the rest is for what the host and the guest tell
each other, a few kilobytes."""
INODES = 1024
"""Files, folders and sockets. The guest has fewer than 50 there."""
POINT = "room"
"""The mount point in a session's folder."""


def mount(point: Path, uid: int, gid: int) -> None:
    """Mount a room that belongs to this owner, unless there is one.

    Raises:
        OSError: it cannot be mounted.
    """
    descriptor = os.open(point, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if mounted(point):
            return
        options = f"size={SIZE},nr_inodes={INODES},mode=0700,uid={uid},gid={gid}"
        where = f"/proc/self/fd/{descriptor}"
        mounting.mount(b"holdfast", where.encode(), b"tmpfs", mounting.PLAIN, options.encode())
    finally:
        os.close(descriptor)


def unmount(point: Path) -> None:
    """Unmount a room, even while a process uses it. Without one there is nothing to do.

    Raises:
        OSError: it cannot be unmounted.
    """
    while mounted(point):
        mounting.detach(os.fsencode(point))


def mounted(point: Path) -> bool:
    """Check whether something is mounted there."""
    try:
        here, above = point.lstat(), point.parent.lstat()
    except OSError:
        return False
    return here.st_dev != above.st_dev


def same_mounts(one: int, other: int) -> bool:
    """Check whether two processes, by pid, see the same mounts.

    Raises:
        OSError: they cannot be examined.
    """
    return Path(f"/proc/{one}/ns/mnt").readlink() == Path(f"/proc/{other}/ns/mnt").readlink()


def serve(request: requests.Room, channel: HostChannel) -> None:
    """Make or remove a room in the engine's mount namespace; the caller can be in a second one, to which it
    spreads.

    Raises:
        BadRequest: the folder there is not the home that is served.
        OSError: the kernel refuses.
    """
    state = folders.STATE.stat()
    _enter(request.engine)
    home = Path(request.home).stat()
    if (home.st_dev, home.st_ino) != (state.st_dev, state.st_ino):
        raise requests.BadRequest("'home' is not the state directory of this checkpointer")
    point = Path(request.home) / "run" / request.folder / POINT
    if request.make:
        mount(point, state.st_uid, state.st_gid)
    else:
        unmount(point)
    channel.send("done")


def _enter(pid: int) -> None:
    namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        separate_process.enter_namespace(namespace, separate_process.NEWNS)
    finally:
        os.close(namespace)
