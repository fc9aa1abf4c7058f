"""Control groups that another program has frozen, while the engine calls their containers running.

Reads the control groups' filesystems alone (cgroups(7)). A group that cannot be seen counts as running,
as where the engine is on a different machine.
"""

from __future__ import annotations

import os

ROOT = "/sys/fs/cgroup"
_PLACES = ("docker/{0}", "system.slice/docker-{0}.scope")
"""Folders that Docker makes by default, with either of its drivers."""
_LARGEST = 1 << 16


def thaw_command(container_id: str, pid: int = 0, *, root: str = ROOT, proc: str = "/proc") -> str:
    """Return the shell command that lets a container's frozen group continue; empty if it is not frozen.

    `pid` is the container's first process, by which its group is found wherever the engine has placed it.
    """
    first = os.access(f"{root}/freezer", os.F_OK)
    base = f"{root}/freezer" if first else root
    known = _of_process(f"{proc}/{pid}/cgroup", first) if pid else ()
    for place in known or (each.format(container_id) for each in _PLACES):
        if found := _first(base, place) if first else _second(base, place):
            return found
    return ""


def _of_process(path: str, first: bool) -> tuple[str, ...]:
    for line in _read(path).splitlines():
        _, controllers, place = (*line.split(":", 2), "", "")[:3]
        if ("freezer" in controllers.split(",")) if first else not controllers:
            return (place.lstrip("/"),)
    return ()


def _first(base: str, place: str) -> str:
    if "FROZEN" not in _read(f"{base}/{place}/freezer.state"):
        return ""
    while place and _read(f"{base}/{place}/freezer.self_freezing").strip() == "0":
        place = place.rpartition("/")[0]  # that group or one above it was frozen
    return f"echo THAWED > {base}/{place}/freezer.state"


def _second(base: str, place: str) -> str:
    if "frozen 1" not in _read(f"{base}/{place}/cgroup.events"):
        return ""
    while place and _read(f"{base}/{place}/cgroup.freeze").strip() == "0":
        place = place.rpartition("/")[0]
    return f"echo 0 > {base}/{place}/cgroup.freeze"


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - `ls` does not load pathlib
            return file.read(_LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""
