"""Makes the files of a snapshot that its image cannot hold, in a container that does not run yet.

The list may come from another machine, and the folders are those of a session: every step is taken from the
descriptor of the folder above, no link is followed, no mount is entered, and nothing that exists is
replaced, but by another name of the same. A separate process does it, with the only right over files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.snapshots.checkpointer.container import first_process
from holdfast.snapshots.checkpointer.ground import beneath, folders, separate_process, tree
from holdfast.snapshots.checkpointer.layers import apart, contents, file_entry
from holdfast.snapshots.checkpointer.layers.file_entry import FileEntry
from holdfast.snapshots.checkpointer.wire.channel import HostChannel
from holdfast.snapshots.checkpointer.wire.requests import ApartFiles

_AT_ONCE = 2048
"""Bytes of a path that one step resolves; a whole one can be longer than the kernel takes (PATH_MAX)."""
_NOT_KEPT = "trusted."


def run(request: ApartFiles, channel: HostChannel) -> None:
    """Make the files. Raises TargetMismatch, OSError: some possibly have been made."""
    tree.check_container(request.init_pid, request.container)
    first_process.await_ours(request.init_pid)
    folder = folders.snapshot(request.folder).parent
    items = apart.read(folder)
    root = beneath.root_of(request.init_pid)
    namespace = os.open(f"/proc/{request.init_pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        tree.check_container(request.init_pid, request.container)
        with (folder / apart.DATA).open("rb") as data:
            separate_process.carry_out(
                lambda: _make_inside(namespace, root, items, data.fileno()),
                "files kept separately from the image cannot be made",
            )
    finally:
        os.close(namespace)
        os.close(root)
    channel.send("done", made=len(items))


def _make_inside(namespace: int, root: int, items: list[FileEntry], data: int) -> None:
    """Make the files in the session's mounts. Imports inside are forbidden: paths are the session's."""
    sys.meta_path.clear()
    sys.path_hooks.clear()
    separate_process.enter_namespace(namespace, separate_process.NEWNS)
    separate_process.keep_capabilities(
        separate_process.CHOWN,
        separate_process.DAC_OVERRIDE,
        separate_process.FOWNER,
        separate_process.FSETID,
        separate_process.SETFCAP,
    )
    os.umask(0)
    make(root, items, data)


def make(root: int, items: list[FileEntry], data: int) -> None:
    """Make files below an open folder, their contents from an open file; parents come first in the list.

    Raises:
        OSError: a name is there already, or cannot be made.
    """
    first: dict[str, str] = {}
    described: dict[str, FileEntry] = {}
    times: dict[str, int] = {}
    for item in items:
        with _parent(root, item.path) as (parent, name):
            above = item.path.rpartition("/")[0]
            times.setdefault(above, os.fstat(parent).st_mtime_ns)
            if item.kind == file_entry.TOUCH:
                _describe(parent, name, item)
            elif item.group and item.group in first:
                with _parent(root, first[item.group]) as (other, source):
                    if item.kind == file_entry.SAME:
                        _remove_same(parent, name, other, source)
                    os.link(source, name, src_dir_fd=other, dst_dir_fd=parent, follow_symlinks=False)
            elif item.kind == file_entry.SAME:
                first[item.group] = item.path
                # Whereupon the overlay has the file in its own layer, where names stay together.
                os.utime(name, ns=(item.mtime, item.mtime), dir_fd=parent, follow_symlinks=False)
            else:
                first[item.group] = item.path
                _make(parent, name, item, data)
            if item.kind in (file_entry.DIRECTORY, file_entry.TOUCH):
                described[item.path] = item
    # What is made in a folder changes its time, and its mode may forbid to make it.
    for path in sorted({*times, *described} - {""}, key=lambda path: path.count("/"), reverse=True):
        with _parent(root, path) as (parent, name):
            if path in described:
                _describe(parent, name, described[path])
            else:
                os.utime(name, ns=(times[path], times[path]), dir_fd=parent, follow_symlinks=False)


def _remove_same(parent: int, name: str, other: int, source: str) -> None:
    """Remove a name that is to become a further name of `source`."""
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    first = os.stat(source, dir_fd=other, follow_symlinks=False)
    if (found.st_mode, found.st_size) != (first.st_mode, first.st_size):
        raise OSError(f"{name!r} is not the same as {source!r}")
    os.unlink(name, dir_fd=parent)


@contextmanager
def _parent(root: int, path: str) -> Iterator[tuple[int, str]]:
    """Open the folder that contains `path`, in as many steps as needed, and return its name there."""
    *above, name = path.split("/")
    here = os.dup(root)
    try:
        while above:
            count, length = 0, 0
            while count < len(above) and (length := length + len(os.fsencode(above[count])) + 1) <= _AT_ONCE:
                count += 1
            below = beneath.opened(here, "/".join(above[:count]), beneath.ROOT, same_mount=True)
            os.close(here)
            here, above = below, above[count:]
        yield here, name
    finally:
        os.close(here)


def _make(parent: int, name: str, item: FileEntry, data: int) -> None:
    if item.kind == file_entry.FILE:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(name, flags, 0o600, dir_fd=parent)
        try:
            os.ftruncate(file, item.size)
            at = item.offset
            for begin, length in item.pieces():
                contents.move(data, file, at, begin, length)
                at += length
        finally:
            os.close(file)
    elif item.kind == file_entry.DIRECTORY:
        os.mkdir(name, 0o700, dir_fd=parent)
        os.chown(name, item.uid, item.gid, dir_fd=parent, follow_symlinks=False)
        return
    elif item.kind == file_entry.LINK:
        os.symlink(item.target, name, dir_fd=parent)
    else:
        os.mkfifo(name, 0o600, dir_fd=parent)
    _describe(parent, name, item)


def _describe(parent: int, name: str, item: FileEntry) -> None:
    if item.kind != file_entry.TOUCH:
        os.chown(name, item.uid, item.gid, dir_fd=parent, follow_symlinks=False)
        if item.kind != file_entry.LINK:  # after the owner, whose change takes setuid away
            os.chmod(name, item.mode & 0o7777, dir_fd=parent)
    if item.attributes:
        _set_attributes(parent, name, item)
    os.utime(name, ns=(item.mtime, item.mtime), dir_fd=parent, follow_symlinks=False)


def _set_attributes(parent: int, name: str, item: FileEntry) -> None:
    # There is no call for a name in an open folder, and /proc in there does not know this process.
    os.fchdir(parent)
    for attribute, value in item.attributes.items():
        if not attribute.startswith(_NOT_KEPT):
            os.setxattr(name, attribute, value.encode("latin-1"), follow_symlinks=False)
