"""Rules for archives from elsewhere: of an image layer, and of a session's shared memory. Pure.

The engine and tar unpack them as root. Both have defenses of their own; anything that would need them is
already refused here: names and links that lead elsewhere, devices, more members than there can be.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

from holdfast.base.bounded_tar import BoundedTar
from holdfast.errors import BundleRefused
from holdfast.snapshots.bundle import form

MAX_MEMBERS = 2_000_000
MAX_NAME = 4096
MAX_HEADER = 16 << 20
"""Bytes of one header with its extensions."""
# Devices every container has anyway: memory devices (null, zero, full, random) and terminals.
_HARMLESS = {1: {3, 5, 7, 8, 9}, 5: {0, 1, 2}}


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
            why = "is a link to elsewhere"
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
