"""Whether what the engine mounted into a container is where it was to be, and whether it begins in there.

The engine finds the place for a mount, and later the kernel whatever a program asks for, each on its own.
Links of the image can have them come to different places: /proc/self/cwd is another folder for each. A
program then finds a file of the image where we mounted ours. The folder in which a container begins is found
by the engine as well: /proc/self/fd/N was a folder of the host for some (CVE-2024-21626).

The first process waits meanwhile and nothing else is in the container.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

from holdfast.procfs import bounded, mount_table, walk
from holdfast.snapshots.checkpointer.ground import beneath
from holdfast.snapshots.checkpointer.wire.requests import MountedPlaces


class Astray(Exception):
    """Something that was to be mounted is not found at its path; the message names that."""


def require(init_pid: int, wanted: MountedPlaces) -> None:
    """Raise Astray unless all of it is mounted where it was to be. Raises OSError if that cannot be seen."""
    root = beneath.root_of(init_pid)
    try:
        table = bounded.read(Path(f"/proc/{init_pid}/mountinfo"), walk.MAX_TEXT)
        points = {mount.id: mount.point for mount in mount_table.parse(table)}
        if _mount_led_to(init_pid, "cwd") not in points:
            raise Astray("the folder that it is to begin in is not in the container")
        for place in (*wanted.own, *wanted.given):
            _require(root, points, place, links=place in wanted.given)
    finally:
        os.close(root)


def program_is_inside(init_pid: int) -> bool:
    """Check whether a process runs a file of the container; the engine's own, which comes first, is not one.

    Raises:
        OSError: it is gone, or out of sight.
    """
    table = bounded.read(Path(f"/proc/{init_pid}/mountinfo"), walk.MAX_TEXT)
    return _mount_led_to(init_pid, "exe") in {mount.id for mount in mount_table.parse(table)}


def _mount_led_to(init_pid: int, link: str) -> int:
    """Return the number of the mount with the program (`exe`) or the folder (`cwd`) of a process."""
    found = os.open(f"/proc/{init_pid}/{link}", os.O_PATH | os.O_CLOEXEC)
    try:
        return _mount_of(found)
    finally:
        os.close(found)


def _require(root: int, points: Mapping[int, str], place: str, *, links: bool) -> None:
    """Raise Astray unless something is mounted at `place`; `links` may lead there, but none of /proc."""
    opening = beneath.seen_inside if links else beneath.opened
    try:
        found = opening(root, place, os.O_PATH)
    except OSError as error:
        what = "a link" if error.errno == errno.ELOOP else os.strerror(error.errno or 0).lower()
        raise Astray(f"{place} does not lead to what is mounted there ({what})") from error
    try:
        # A file that was removed or replaced on the host is still the one that is mounted.
        where = str(Path(f"/proc/self/fd/{found}").readlink()).removesuffix(" (deleted)")
        if points.get(_mount_of(found)) != where:
            raise Astray(f"{place} does not lead to what is mounted there (but to {where} of the image)")
    finally:
        os.close(found)


def _mount_of(descriptor: int) -> int:
    info = walk.fdinfo_of(os.getpid(), descriptor)
    return info.mount_id if info is not None else -1
