"""Carries the contents of a session's tmpfs mounts, which are in neither the image nor the process images.

POSIX shared memory and semaphores live in /dev/shm. Archives are written while everything in the session is
frozen, and unpacked before anything of it runs. Both are done by processes of their own that give up every
right they do not need, and that reach the mounts by descriptors: no path of the session is resolved with
privileges.

The archive is the session's own work, and so are the names in it. Every folder on the way is opened beneath
the root, without following a link; files are only created, never opened if they exist.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

from holdfast.procfs import bounded, mount_table, walk
from holdfast.snapshots.checkpointer.ground import beneath, separate_process
from holdfast.snapshots.checkpointer.wire.deadline import Deadline

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the session's, by its well-known name
_END_LIMIT = 5.0
"""Seconds for tar to end when its output has ended."""
_REASON = 500
"""Characters of an error that are passed on."""
_XATTR = "SCHILY.xattr."
# What a plain session may set. Others are of security modules, or need more rights than a session has.
_KEPT = "user."
_MODE = 0o7777


def mounts(mountinfo: bytes) -> list[str]:
    """Mount points of writable tmpfs that hold data of the session (proc_pid_mountinfo(5)).

    There is one that a session can have of its own. Other content of memory belongs to the engine, or is a
    mounted folder of the host.
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
            raise OSError(f"the new container lacks a tmpfs at {point[:200]!r}")
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
        preexec_fn=lambda: separate_process.keep_capabilities(
            separate_process.DAC_OVERRIDE, separate_process.DAC_READ_SEARCH
        ),
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
    """Return the first of tar's messages, of which there can be one for each of a million files."""
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
    """Unpack in the session's mounts. Imports inside are forbidden: paths are the session's."""
    sys.meta_path.clear()
    sys.path_hooks.clear()
    separate_process.enter_namespace(namespace, separate_process.NEWNS)
    separate_process.keep_capabilities(
        separate_process.CHOWN,
        separate_process.DAC_OVERRIDE,
        separate_process.FOWNER,
        separate_process.FSETID,
    )
    os.umask(0)
    unpack(archive, target)


def unpack(archive: BinaryIO, root: int) -> None:
    """Make all entries of `archive` (tar, uncompressed) below the folder `root`.

    Attributes of folders are set last: they can forbid writing, and writing changes their times.

    Raises:
        OSError: a name leads out, is there already, or cannot be made.
        tarfile.TarError: it is not an archive.
    """
    try:
        _unpack(archive, root)
    except (ValueError, OverflowError, RecursionError, IndexError) as error:  # of tarfile, or of a number
        raise tarfile.ReadError(f"it has an impossible value ({type(error).__name__})") from error


def _unpack(archive: BinaryIO, root: int) -> None:
    folders: list[tuple[str, tarfile.TarInfo]] = []
    with tarfile.open(fileobj=archive, mode="r:") as members:
        for member in members:
            members.members = []  # type: ignore[attr-defined]  # it keeps every one it has seen
            path = "/".join(part for part in member.name.split("/") if part not in ("", "."))
            if member.isdir():
                folders.append((path, member))
                if path:
                    with _parent(root, path) as (parent, name):
                        os.mkdir(name, 0o700, dir_fd=parent)
            else:
                with _parent(root, path) as (parent, name):
                    _make(archive.fileno(), member, root, parent, name)
    for path, member in reversed(folders):
        folder = beneath.opened(root, path, os.O_RDONLY | os.O_DIRECTORY, same_mount=True)
        try:
            _describe(folder, member)
        finally:
            os.close(folder)


@contextmanager
def _parent(root: int, path: str) -> Iterator[tuple[int, str]]:
    """Return the folder that contains `path`, and its name there."""
    above, _, name = path.rpartition("/")
    if name in ("", ".", ".."):
        raise OSError(f"{path[:200]!r} is not the name of a file")
    parent = beneath.opened(root, above, beneath.ROOT, same_mount=True)
    try:
        yield parent, name
    finally:
        os.close(parent)


def _make(archive: int, member: tarfile.TarInfo, root: int, parent: int, name: str) -> None:
    if member.isreg():
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
        try:
            _fill(archive, member, file)
            _describe(file, member)
        finally:
            os.close(file)
    elif member.islnk():
        with _parent(root, member.linkname.removeprefix("./")) as (other, first):
            os.link(first, name, src_dir_fd=other, dst_dir_fd=parent, follow_symlinks=False)
    elif member.issym():
        os.symlink(member.linkname, name, dir_fd=parent)
        os.chown(name, member.uid, member.gid, dir_fd=parent, follow_symlinks=False)
        _set_time(member, name, parent)
    elif member.isfifo():
        os.mkfifo(name, 0o600, dir_fd=parent)
        os.chown(name, member.uid, member.gid, dir_fd=parent, follow_symlinks=False)
        os.chmod(name, member.mode & _MODE, dir_fd=parent)
        _set_time(member, name, parent)
    else:
        raise OSError(f"{member.name[:200]!r} has a kind that no session can create")


def _fill(archive: int, member: tarfile.TarInfo, file: int) -> None:
    """Copy the contents; ranges missing from the archive are holes."""
    os.ftruncate(file, member.size)
    at = member.offset_data
    for offset, size in _pieces(member):
        os.lseek(file, offset, os.SEEK_SET)
        end = at + size
        while at < end:
            sent = os.sendfile(file, archive, at, end - at)
            if sent == 0:
                raise OSError(f"the archive ends in the middle of {member.name[:200]!r}")
            at += sent


def _pieces(member: tarfile.TarInfo) -> list[tuple[int, int]]:
    """Return where in the file the archive's data belongs: offsets and sizes in bytes."""
    sparse: Any = member.sparse  # a list of pairs; None if there are no holes
    return [(0, member.size)] if sparse is None else list(sparse)


def _describe(descriptor: int, member: tarfile.TarInfo) -> None:
    for key, value in member.pax_headers.items():
        name = key.removeprefix(_XATTR)
        if name != key and name.startswith(_KEPT):
            os.setxattr(descriptor, name, value.encode("utf-8", "surrogateescape"))
    os.fchown(descriptor, member.uid, member.gid)
    os.fchmod(descriptor, member.mode & _MODE)  # after the owner, whose change takes setuid away
    _set_time(member, descriptor)


def _set_time(member: tarfile.TarInfo, which: int | str, parent: int | None = None) -> None:
    text = member.pax_headers.get("mtime")
    exact = int(Decimal(text) * 10**9) if text else int(member.mtime) * 10**9
    if isinstance(which, int):
        os.utime(which, ns=(exact, exact))
    else:
        os.utime(which, ns=(exact, exact), dir_fd=parent, follow_symlinks=False)
