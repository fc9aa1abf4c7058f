"""The owner of files that a process has mapped: its session, or another.

A mapped file needs no descriptor: it is opened, mapped and closed. What counts is the mount through which it
was opened, which the kernel reveals by the mapping's entry in /proc/PID/map_files (proc_pid_map_files(5)).
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable, Iterator
from functools import cache

from holdfast.procfs import bounded, memory_maps, walk
from holdfast.snapshots.checkpointer.record.judged_limits import MAX_MAPPED

MOST_TOLD = 20
"""Mappings of one process that are named; one is too many."""
_SYS_IO_SETUP = {"x86_64": 206, "aarch64": 0}

Key = tuple[int, int, int]


class Mappings:
    """Of all processes of one tree."""

    def __init__(self, mounted: Callable[[str], bool]) -> None:
        """Prepare; `mounted` checks whether a link of /proc leads to a file on a mount of the container."""
        self._mounted = mounted
        self._judged: dict[Key, bool] = {}
        self._kernel = devices_of_memory()

    def foreign(self, pid: int) -> list[str]:
        """Return what a process has mapped that is not the session's, in words."""
        found: list[str] = []
        try:
            for one in (each for lines in walk.maps(pid) for each in memory_maps.parse(lines)):
                if one.inode and not self._known(pid, one):
                    found.append(f"memory ({one.path[:200]})")
                    if len(found) >= MOST_TOLD:
                        break
        except bounded.TooLong:
            found.append("memory (of more files than can be judged)")
        return found

    def _known(self, pid: int, one: memory_maps.Mapping) -> bool:
        key = (one.major, one.minor, one.inode)
        if key not in self._judged:
            if len(self._judged) >= MAX_MAPPED:
                return False
            self._judged[key] = self._is_ours(pid, one)
        return self._judged[key]

    def _is_ours(self, pid: int, one: memory_maps.Mapping) -> bool:
        # Memory without a file: memfds, System V segments, memory that processes share. No path leads to it.
        if (one.major, one.minor) in self._kernel:
            return True
        return self._mounted(f"/proc/{pid}/map_files/{one.start:x}-{one.end:x}")


@cache
def devices_of_memory() -> frozenset[tuple[int, int]]:
    """Return the kernel's own file systems: of shared memory, of ordinary and huge pages, and of rings of
    AIO.

    They stay the same while the machine runs, and finding the last one takes the kernel 15 ms.
    """
    found = set(_device_of_rings())
    for flags in (0, os.MFD_HUGETLB):
        try:
            descriptor = os.memfd_create("device", os.MFD_CLOEXEC | flags)
        except OSError:
            continue  # no huge pages here
        device = os.fstat(descriptor).st_dev
        os.close(descriptor)
        found.add((os.major(device), os.minor(device)))
    return frozenset(found)


def _device_of_rings() -> Iterator[tuple[int, int]]:
    """Return where the kernel keeps what io_setup(2) makes; None if it makes none."""
    number = _SYS_IO_SETUP.get(platform.machine())
    ring = ctypes.c_ulong(0)
    if number is None or ctypes.CDLL(None).syscall(number, 1, ctypes.byref(ring)) != 0:
        return
    for one in memory_maps.parse(walk.read("self/maps") or b""):
        if one.start == ring.value:
            yield one.major, one.minor
    ctypes.CDLL(None).syscall(number + 1, ring)  # io_destroy(2) is the next one on both
