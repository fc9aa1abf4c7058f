"""Carries the contents of a session's tmpfs mounts, which are in neither the image nor the process images.

POSIX shared memory and semaphores live in /dev/shm. Archives are written while everything in the
session stands still, and unpacked before anything of it runs, so nobody can swap paths meanwhile.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

# Mounts the engine makes itself and fills anew for each container; nothing of the session is in them.
_ENGINE_OWNED = ("/dev", "/proc", "/sys", "/run/secrets")


def mounts(mountinfo: str) -> list[str]:
    """Mount points of writable tmpfs that can hold data of the session (proc_pid_mountinfo(5))."""
    found: list[str] = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, options = before.split(), after.split()
        if len(fields) < 6 or not options or options[0] != "tmpfs" or "ro" in fields[5].split(","):
            continue
        # A part of one is the host's (a home or an engine's folder in memory), or mounted whole elsewhere.
        if fields[3] != "/":
            continue
        point = fields[4].replace("\\040", " ")
        shared_memory = point == "/dev/shm"  # noqa: S108 - the session's, by its well-known name
        if shared_memory or not any(point == own or point.startswith(own + "/") for own in _ENGINE_OWNED):
            found.append(point)
    return found


def save(init_pid: int, folder: Path) -> list[str]:
    """Archive each tmpfs of the container into `folder`/tmpfs-N.tar; returns the mount points in order."""
    points = mounts(Path(f"/proc/{init_pid}/mountinfo").read_text())
    kept: list[str] = []
    for point in points:
        source = Path(f"/proc/{init_pid}/root{point}")
        if not any(source.iterdir()):
            continue
        _tar(
            "--create",
            "--sparse",
            f"--file={folder / f'tmpfs-{len(kept)}.tar'}",
            f"--directory={source}",
            ".",
        )
        kept.append(point)
    return kept


def load(init_pid: int, folder: Path, points: list[str]) -> None:
    """Unpack what `save` wrote into the tmpfs mounts of a new container."""
    for number, point in enumerate(points):
        target = Path(f"/proc/{init_pid}/root{point}")
        _tar(
            "--extract",
            "--same-permissions",
            f"--file={folder / f'tmpfs-{number}.tar'}",
            f"--directory={target}",
        )


def _tar(*arguments: str) -> None:
    command = ["/usr/bin/tar", "--numeric-owner", "--xattrs", "--one-file-system", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # 1: "some files differ"; sockets are skipped with a warning: CRIU binds them anew.
    if done.returncode not in (0, 1):
        raise OSError(f"tar failed: {done.stderr.strip()[:500]}")
