"""The folders that an overlay at a container's root is made of, in the kernel's words. Pure.

From proc_pid_mountinfo(5), whose options are those of the mount, as the engine passed them.
"""

from __future__ import annotations

import re

from holdfast.procfs import mount_table

_ESCAPED = re.compile(r"\\([0-7]{3})")
# containerd shortens a long list of layers: they are then relative to the folder of its snapshots, to which
# the upper directory has its whole path (containerd, core/mount/mount_linux.go).
_SHORT = re.compile(r"[0-9]+/fs")
_WHOLE = re.compile(r"(.+)/[0-9]+/fs")


def folders(mountinfo: bytes) -> list[str] | None:
    """Return absolute paths on the host: the upper directory, then the lower ones, the topmost first.

    None if the root is no overlay that is written to, or the paths are not known.
    """
    for mount in mount_table.parse(mountinfo):
        if mount.point == "/" and mount.kind == "overlay" and mount.options:
            return _parse(mount.options)
    return None


def private(mountinfo: bytes) -> str:
    """Return the prefix of the attributes in which that overlay keeps its state.

    Other attributes of this kind are those of programs, for which they mean nothing there.
    """
    for mount in mount_table.parse(mountinfo):
        if mount.point == "/" and mount.kind == "overlay" and "userxattr" in mount.options.split(","):
            return "user.overlay."
    return "trusted.overlay."


def _parse(options: str) -> list[str] | None:
    upper = ""
    lowers: list[str] = []
    for option in options.split(","):
        name, _, value = option.partition("=")
        if name == "upperdir":
            upper = _plain(value)
        elif name in ("lowerdir", "lowerdir+"):
            lowers += map(_plain, value.split(":"))
    whole = _WHOLE.fullmatch(upper)
    if whole is not None:
        lowers = [f"{whole[1]}/{path}" if _SHORT.fullmatch(path) else path for path in lowers]
    found = [upper, *lowers]
    if not lowers or not all(path.startswith("/") and "/../" not in f"{path}/" for path in found):
        return None
    return found


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)
