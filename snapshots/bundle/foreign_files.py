"""Rules for files from elsewhere: their names, archives of an image layer and of shared memory. Pure.

The engine and tar unpack archives as root. Both have defenses of their own; anything that would need them is
already refused here: names and links that lead elsewhere, devices, more members than there can be.

CRIU knows the purpose of a file only by its name, and a few of its files would make it do more than restore
processes: set up networks, mounts, security profiles, run tools. None of these are in a session's
snapshot, so their names are not here.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

from holdfast.base.bounded_tar import BoundedTar
from holdfast.errors import BundleRefused
from holdfast.snapshots.bundle import form
from holdfast.snapshots.checkpointer.layers import apart
from holdfast.snapshots.checkpointer.record import earlier_names

MAX_MEMBERS = 2_000_000
MAX_NAME = 4096
MAX_HEADER = 16 << 20
"""Bytes of one header with its extensions."""
# Devices every container has anyway: memory devices (null, zero, full, random) and terminals.
_HARMLESS = {1: {3, 5, 7, 8, 9}, 5: {0, 1, 2}}
_NUMBER = r"[0-9]{1,20}"
# One for each process, thread, table or object, by a number; then those that exist once. CRIU also reads the
# images of its first versions, one for each kind of file. No judge knows them, so they have no name here.
_NUMBERED = (
    *("core", "fdinfo", "fs", "ids", "mm", "pagemap", "pagemap-shmem", "pages", "timens"),
    *("ipcns-var", "ipcns-shm", "ipcns-msg", "ipcns-sem"),
)
_SINGLE = (
    *("cgroup", "fifo-data", "filelocks", "files", "inventory", "memfd", "pipes-data", "pstree"),
    *("remap-fpath", "seccomp", "sk-queues", "tty-data", "tty-info"),
)
_IMAGE = re.compile(
    rf"images/(?:(?:{'|'.join(_NUMBERED)})-{_NUMBER}\.img|{earlier_names.PATTERN}"
    rf"|(?:{'|'.join(_SINGLE)})\.img"
    r"|(?:tcp-stream|ghost-file)-[0-9a-f]{1,16}\.img"
    r"|facts\.json|file-numbers\.json"
    rf"|tmpfs-{_NUMBER}\.tar"
    rf"|beyond-{_NUMBER})"
)
_BESIDES = frozenset({"record.json.gz", "baseline.json.gz", *apart.FILES})


def check_layer(path: Path) -> None:
    """Check every member of a layer.

    Raises:
        BundleRefused: a member is not allowed; the error names the first.
    """
    for member in _members(path, "a layer of its image"):
        why = _layer_fault(member)
        if why is not None:
            raise _refused("a layer of its image", member, why)


def check_memory(path: Path) -> None:
    """Check an archive of shared memory: files, folders and links in them, nothing else."""
    for member in _members(path, path.name):
        why = _name_fault(member.name)
        if why is None and not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
            why = "is not a file"
        if why is None and member.islnk():
            why = _name_fault(member.linkname)
        if why is None and member.issym() and _leads_out(member.name, member.linkname):
            why = "is a link that leads out"
        if why is None and member.mode & 0o6000 and not member.isdir():
            why = "would run as another user"
        if why is not None:
            raise _refused(path.name, member, why)


def _layer_fault(member: tarfile.TarInfo) -> str | None:
    why = _name_fault(member.name)
    if why is not None:
        return why
    if member.islnk():
        return _name_fault(member.linkname)
    if member.ischr() or member.isblk():
        harmless = member.ischr() and member.devminor in _HARMLESS.get(member.devmajor, ())
        return None if harmless else "is a device"
    return None


def _name_fault(name: str) -> str | None:
    if len(name) > MAX_NAME or "\0" in name:
        return "has an impossible name"
    if name.startswith("/") or ".." in name.split("/"):
        return "leads out of the archive"
    return None


def _leads_out(name: str, target: str) -> bool:
    """Return whether a symbolic link names something above the unpacked folder."""
    if target.startswith("/"):
        return True
    depth = len([part for part in name.split("/")[:-1] if part not in ("", ".")])
    for part in target.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        if depth < 0:
            return True
    return False


def _members(path: Path, what: str) -> Iterator[tarfile.TarInfo]:
    try:
        with path.open("rb") as file:
            for number, member in enumerate(BoundedTar(file, most_header=MAX_HEADER, seeks=True)):
                if number >= MAX_MEMBERS:
                    raise BundleRefused(f"cannot import: {what} has too many files")
                yield member
    except tarfile.TarError as error:
        raise BundleRefused(f"cannot import: {what} is not a readable archive") from error


def _refused(what: str, member: tarfile.TarInfo, why: str) -> BundleRefused:
    return BundleRefused(f"cannot import: {form.shown(member.name)} in {what} {why}")


def belongs(name: str) -> bool:
    """Return whether a snapshot can have a file of this name, relative to its folder."""
    return name in _BESIDES or _IMAGE.fullmatch(name) is not None


def is_of_processes(name: str) -> bool:
    """Return whether only a live snapshot can have it."""
    return name.startswith("images/") or name == "record.json.gz"
