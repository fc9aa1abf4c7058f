"""Carries the contents of a session's tmpfs mounts, which are in neither the image nor the process images.

POSIX shared memory and semaphores live in /dev/shm. Archives are written while everything in the session is
frozen, and unpacked before anything of it runs. Both are done by processes of their own that give up every
right they do not need, and that reach the mounts by descriptors: no path of the session is resolved with
privileges.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

from holdfast.procfs import bounded, mount_table, walk
from holdfast.snapshots.checkpointer.ground import beneath, namespaces, rights, separate_process
from holdfast.snapshots.checkpointer.layers import unpack
from holdfast.snapshots.checkpointer.wire.deadline import Deadline

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the session's, by its well-known name
_END_LIMIT = 5.0
"""Seconds for tar to end when it has nothing more to say."""
_REASON = 500
"""Characters of an error that are passed on."""


def mounts(mountinfo: bytes) -> list[str]:
    """Mount points of writable tmpfs that hold data of the session (proc_pid_mountinfo(5)).

    There is one that a session can have of its own. What else is in memory belongs to the engine, or is a
    folder of the host that was mounted.
    """
    for mount in mount_table.parse(mountinfo):
        # A part of one is the host's: a home or an engine's folder in memory, or mounted whole elsewhere.
        if (mount.kind, mount.root, mount.point) == ("tmpfs", "/", SHARED_MEMORY) and mount.writable:
            return [SHARED_MEMORY]
    return []


def save(init_pid: int, folder: Path, deadline: Deadline) -> list[str]:
    """Archive each tmpfs of the container into `folder`/tmpfs-N.tar; returns the mount points in order.

    Raises:
        Passed: it took longer than the deadline.
        OSError: one cannot be read.
    """
    kept: list[str] = []
    for point in mounts(bounded.read(Path(f"/proc/{init_pid}/mountinfo"), walk.MAX_TEXT)):
        source = _opened(init_pid, point)
        try:
            if _has_entries(source):
                _archive(source, folder / f"tmpfs-{len(kept)}.tar", deadline)
                kept.append(point)
        finally:
            os.close(source)
    return kept


def load(init_pid: int, folder: Path, points: list[str]) -> None:
    """Unpack what `save` wrote into the tmpfs mounts of a new container.

    Raises:
        OSError: an archive cannot be unpacked, or is not one that a session can have made.
    """
    present = mounts(bounded.read(Path(f"/proc/{init_pid}/mountinfo"), walk.MAX_TEXT))
    for number, point in enumerate(points):
        if point not in present:
            raise OSError(f"the new container has no tmpfs at {point[:200]!r}")
        target = _opened(init_pid, point)
        namespace = os.open(f"/proc/{init_pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        try:
            with (folder / f"tmpfs-{number}.tar").open("rb") as archive:
                separate_process.carry_out(
                    lambda: _unpack_inside(namespace, archive, target),  # noqa: B023 - called at once
                    "shared memory cannot be unpacked",
                )
        finally:
            os.close(namespace)
            os.close(target)


def _opened(init_pid: int, point: str) -> int:
    """Open the root of a mount, which is a folder whose path has no links: the kernel has just
    reported it.
    """
    root = beneath.root_of(init_pid)
    try:
        return beneath.opened(root, point, os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(root)


def _has_entries(folder: int) -> bool:
    with os.scandir(folder) as entries:
        return next(entries, None) is not None


def _archive(source: int, archive: Path, deadline: Deadline) -> None:
    command = [
        "/usr/bin/tar",
        "--numeric-owner",
        "--xattrs",
        "--one-file-system",
        "--create",
        "--sparse",
        f"--file={archive}",
        f"--directory=/proc/self/fd/{source}",
        ".",
    ]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=(source,),
        # It writes to a folder of the home's owner, and reads files of anybody in the session.
        preexec_fn=lambda: rights.keep_only(rights.DAC_OVERRIDE, rights.DAC_READ_SEARCH),
    ) as tar:
        try:
            complaints = _complaints(tar, deadline)
            status = tar.wait(max(deadline.left, _END_LIMIT))
        except BaseException:
            tar.kill()
            raise
    # 1: "some files differ"; sockets are skipped with a warning: CRIU binds them again.
    if status not in (0, 1):
        raise OSError(f"tar failed: {complaints.decode('utf-8', 'replace').strip()[:_REASON]}")


def _complaints(tar: subprocess.Popen[bytes], deadline: Deadline) -> bytes:
    """Return the first of tar's messages, which may be a line for each of a million files."""
    assert tar.stderr is not None
    text = b""
    while True:
        deadline.check("to keep its shared memory")
        if not select.select([tar.stderr], [], [], min(deadline.left, 1.0))[0]:
            continue
        piece = os.read(tar.stderr.fileno(), bounded.PIECE)
        if not piece:
            return text
        text = (text + piece)[: 4 * _REASON]


def _unpack_inside(namespace: int, archive: BinaryIO, target: int) -> None:
    """Unpack in the session's mounts. Nothing may be imported once inside: paths are theirs."""
    sys.meta_path.clear()
    sys.path_hooks.clear()
    namespaces.enter(namespace, namespaces.NEWNS)
    rights.keep_only(rights.CHOWN, rights.DAC_OVERRIDE, rights.FOWNER, rights.FSETID)
    os.umask(0)
    unpack.unpack(archive, target)
