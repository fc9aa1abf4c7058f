"""Control groups of containers that are frozen while the engine calls them running: found, made, thawed.

Uses the control groups' filesystems alone (cgroups(7)), and so continues when the engine does not answer. A
group that cannot be seen counts as running, as where the engine is on a different machine.
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
    first, base = _version(root)
    for place in _places(container_id, pid, first, proc):
        if found := _first(base, place) if first else _second(base, place):
            return found
    return ""


def is_frozen(container_id: str, pid: int = 0, *, root: str = ROOT, proc: str = "/proc") -> bool:
    """Return whether nothing in a container runs, as far as its group can be seen."""
    return bool(thaw_command(container_id, pid, root=root, proc=proc))


def freeze(container_id: str, pid: int = 0, *, root: str = ROOT, proc: str = "/proc") -> bool:
    """Have everything in a container stop, and return whether it has; it may take a moment longer.

    Raises:
        FileNotFoundError: its group cannot be seen; PermissionError: or not be written.
        OSError: for another reason it was not frozen.
    """
    first, base = _version(root)
    group = _group(container_id, pid, root, proc)
    _write(*((f"{group}/freezer.state", "FROZEN") if first else (f"{group}/cgroup.freeze", "1")))
    place = group.removeprefix(f"{base}/")
    return bool(_first(base, place) if first else _second(base, place))


def thaw(container_id: str, pid: int = 0, *, root: str = ROOT, proc: str = "/proc") -> None:
    """Let everything in a container continue that `freeze` stopped. Raises as that does."""
    first, _ = _version(root)
    group = _group(container_id, pid, root, proc)
    _write(*((f"{group}/freezer.state", "THAWED") if first else (f"{group}/cgroup.freeze", "0")))


def members(container_id: str, pid: int = 0, *, root: str = ROOT, proc: str = "/proc") -> tuple[int, ...]:
    """Return the processes in a container's group. Raises FileNotFoundError if it cannot be seen."""
    words = _read(f"{_group(container_id, pid, root, proc)}/cgroup.procs").split()
    return tuple(int(word) for word in words if word != "0")


def _version(root: str) -> tuple[bool, str]:
    """Return whether the groups are of the first version, and where they are."""
    first = os.access(f"{root}/freezer", os.F_OK)
    return first, f"{root}/freezer" if first else root


def _places(container_id: str, pid: int, first: bool, proc: str) -> tuple[str, ...]:
    known = _of_process(f"{proc}/{pid}/cgroup", first) if pid else ()
    return known or tuple(each.format(container_id) for each in _PLACES)


def _group(container_id: str, pid: int, root: str, proc: str) -> str:
    """Return the folder of a container's group.

    That of a process counts only with the container's id in its path: its number can be another's by now.
    """
    first, base = _version(root)
    for place in _places(container_id, pid, first, proc):
        if container_id in place and os.access(f"{base}/{place}/cgroup.procs", os.F_OK):
            return f"{base}/{place}"
    raise FileNotFoundError(f"the control group of container {container_id[:12]} cannot be seen")


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


def _write(path: str, word: str) -> None:
    # Only what is there: a group that has gone is not made again as a file.
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, word.encode())
    finally:
        os.close(file)
