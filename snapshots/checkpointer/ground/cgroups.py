"""A container's cgroups and their members; and this process in them, so that restored tasks are limited."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from holdfast.procfs import bounded

MAX_MEMBERS = 64 << 20
"""Bytes of a list of processes: there are at most 4 million (PID_MAX_LIMIT of the kernel)."""
_MAX_PATHS = 1 << 20
HOST_CGROUPS = Path("/host/cgroup")


def join(init_pid: int) -> None:
    """Move this process into every cgroup of `init_pid`. Raises OSError."""
    joined = 0
    for _, folder in folders(init_pid):
        (folder / "cgroup.procs").write_text(str(os.getpid()))
        joined += 1
    if not joined:
        raise OSError("none of the container's cgroups is visible to the checkpointer")


def members(init_pid: int) -> tuple[int, ...]:
    """Return every process of the container, including those entered from outside; empty if unknown."""
    try:
        for _, folder in folders(init_pid):
            words = bounded.text(folder / "cgroup.procs", MAX_MEMBERS).split()
            # 0 is a process of a namespace that cannot be seen from here.
            return tuple(int(word) for word in words if word != "0")
    except OSError:
        pass
    return ()


def folders(init_pid: int) -> Iterator[tuple[str, Path]]:
    """Controllers (empty: version 2) and folder of each visible cgroup of `init_pid`. Raises OSError.

    The lines of /proc/PID/cgroup are "ID:CONTROLLERS:PATH" (cgroups(7)); with version 2 there is
    one line with no controllers. Named version 1 hierarchies are mounted under their name.
    """
    for line in bounded.text(Path(f"/proc/{init_pid}/cgroup"), _MAX_PATHS).splitlines():
        _, controllers, path = line.split(":", 2)
        for base in _mounts(controllers):
            folder = base / path.lstrip("/")
            if (folder / "cgroup.procs").exists():
                yield controllers, folder


def _mounts(controllers: str) -> list[Path]:
    if not controllers:
        return [HOST_CGROUPS / "unified", HOST_CGROUPS]
    if controllers.startswith("name="):
        return [HOST_CGROUPS / controllers.removeprefix("name=")]
    # Controllers mounted together may appear as one folder or as one per name.
    return [HOST_CGROUPS / name for name in {controllers, *controllers.split(",")}]
