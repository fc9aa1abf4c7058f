"""Whether an engine can limit a session's own files, and the default limit.  Pure.

overlay2 does it by project quotas, on xfs that is mounted with `pquota`; btrfs and zfs by quotas of their own
(https://docs.docker.com/reference/cli/docker/container/run/#storage-opt). On other storage, ext4 above all, a
container may fill the disk that the engine is on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.procfs import mount_table

DEFAULT = 32 << 30
"""Bytes, where nothing else was chosen and the engine can."""
LEAST = 64 << 20
"""Bytes; a supervisor and a kernel write a few of them."""
_OWN_QUOTAS = ("btrfs", "zfs")


def fault(info: Mapping[str, Any], mountinfo: bytes) -> str:
    """Return the reason why an engine cannot limit the files; empty if it can.

    Args:
        info: the output of `docker info`.
        mountinfo: /proc/self/mountinfo of a process that sees the engine's folder
            (proc_pid_mountinfo(5)).
    """
    driver = str(info.get("Driver", "?"))
    if driver in _OWN_QUOTAS:
        return ""
    below = dict(item for item in info.get("DriverStatus") or () if len(item) == 2)
    kind = str(below.get("Backing Filesystem", "?"))
    if driver != "overlay2" or kind != "xfs":
        return f"its storage, {driver} on {kind}, does not support quotas"
    options = _options(mountinfo, str(info.get("DockerRootDir", "/")))
    return "" if options & {"pquota", "prjquota"} else "its xfs is not mounted with `pquota`"


def _options(mountinfo: bytes, folder: str) -> set[str]:
    """Return the options of the file system that holds a folder: of its longest mount point."""
    found: tuple[int, set[str]] = (-1, set())
    for mount in mount_table.parse(mountinfo):
        point = mount.point.rstrip("/")
        if f"{folder}/".startswith(f"{point}/") and len(point) >= found[0]:
            found = (len(point), set(mount.options.split(",")))
    return found[1]
