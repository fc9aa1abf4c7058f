"""Makes the root of a container read-only, except for some folders, before any program runs in it.

The engine's own read-only root would need volumes or memory for the writable places, which captures do not
copy. So the engine mounts the root writable, some of its folders become mounts of their own here, and the
root's mount alone is made read-only: written files are in the container's layer as usual. Undoing that
takes CAP_SYS_ADMIN, which nothing in a session has.

The first process waits during this and nothing else is in the container. Its files can be anybody's,
though: no link in them is followed.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from holdfast.procfs import bounded, mount_table, walk
from holdfast.procfs.mount_table import MountedPart
from holdfast.snapshots.checkpointer.ground import beneath, mounting, separate_process
from holdfast.snapshots.checkpointer.wire.requests import ReadOnlyRoot

_CLOSED, _OPEN = 0o755, 0o1777
"""Modes of folders that are made: our own and those above others; others, as where engines mount memory."""


class RootWritable(Exception):
    """The root is not read-only, or a folder that must be writable cannot be."""


def make(init_pid: int, wanted: ReadOnlyRoot) -> None:
    """Make the root read-only, and check the result.

    Raises:
        RootWritable: it cannot be done.
        OSError: the process cannot be examined.
    """
    table = _mounts(init_pid)
    namespace = os.open(f"/proc/{init_pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        separate_process.carry_out(lambda: _inside(namespace, table, wanted), "its root cannot be read-only")
    except OSError as error:
        raise RootWritable(str(error)) from error
    finally:
        os.close(namespace)
    if any(mount.writable for mount in _mounts(init_pid) if mount.point in ("/", *wanted.files)):
        raise RootWritable("its root is still writable")


def _mounts(init_pid: int) -> list[MountedPart]:
    return list(mount_table.parse(bounded.read(Path(f"/proc/{init_pid}/mountinfo"), walk.MAX_TEXT)))


def _inside(namespace: int, table: Sequence[MountedPart], wanted: ReadOnlyRoot) -> None:
    """Change the mounts of a container, in a process of its own. Imports inside are forbidden."""
    sys.meta_path.clear()
    sys.path_hooks.clear()
    separate_process.enter_namespace(namespace, separate_process.NEWNS)
    separate_process.keep_capabilities(separate_process.DAC_OVERRIDE, separate_process.SYS_ADMIN)
    os.umask(0)
    above = {mount.id for mount in table if mount.point == "/"}
    # Paths of mounts have no links in them: the kernel reports where they are.
    points = [mount.point for mount in table if mount.parent in above and mount.point != "/"]
    root = os.open("/", beneath.ROOT)
    # Those above others come first: what is below them needs nothing then.
    for place in sorted({*wanted.own, *wanted.folders, *wanted.usual}, key=len):
        mode = _CLOSED if place in wanted.own else _OPEN
        folder = _folder(root, place, mode, must=place in wanted.own or place in wanted.folders)
        if folder >= 0:
            _separate(root, folder, [point for point in points if point.startswith(f"{place}/")])
    for mount in table:
        if mount.point == "/" or mount.point in wanted.files:
            mounting.make_read_only(os.fsencode(mount.point))


def _folder(root: int, place: str, mode: int, *, must: bool) -> int:
    """Open a folder of the container's own files, made if it is missing.

    -1 if it is to be left alone: something is mounted there or above, also by us; or it is a permitted
    link.
    """
    try:
        _make(root, place, mode)
        return beneath.opened(root, place, beneath.ROOT, same_mount=True)
    except OSError as error:
        if error.errno == errno.EXDEV or (not must and error.errno in (errno.ELOOP, errno.ENOTDIR)):
            return -1
        what = "it is, or is below, a link" if error.errno == errno.ELOOP else os.strerror(error.errno or 0)
        raise OSError(error.errno, f"{place} cannot be writable: {what}") from error


def _make(root: int, place: str, mode: int) -> None:
    above, _, name = place.rpartition("/")
    try:
        parent = beneath.opened(root, above, beneath.ROOT, same_mount=True)
    except FileNotFoundError:
        _make(root, above, _CLOSED)
        parent = beneath.opened(root, above, beneath.ROOT, same_mount=True)
    try:
        os.mkdir(name, mode, dir_fd=parent)
    except FileExistsError:
        pass
    finally:
        os.close(parent)


def _separate(root: int, folder: int, below: Iterable[str]) -> None:
    """Make a folder a mount of its own, with the mounts below it."""
    moved = [(point, beneath.opened(root, point, os.O_PATH)) for point in below]
    mounting.move(mounting.detached_clone(folder), folder)
    for point, mount in moved:
        mounting.move(mount, beneath.opened(root, point, os.O_PATH))
