"""The exit status of a process that is not our child, obtained from the kernel through a pidfd.

Linux 6.15 and newer report it through the pidfd alone, even after the parent has reaped the process; older
kernels only until then. Nothing here decides anything.
"""

from __future__ import annotations

import fcntl
import os
import struct

from holdfast.procfs import process_stat
from holdfast.runtime.guest.pulse import access
from holdfast.runtime.guest.pulse.deaths import ProcessEnd

# From linux/pidfd.h: the first 64 bytes of struct pidfd_info, with the mask at the start and the wait status
# at the end, and the request that fills it.
_INFO_SIZE = 64
_STATUS_AT = 60
_EXIT = 1 << 3
_GET_INFO = (3 << 30) | (_INFO_SIZE << 16) | (0xFF << 8) | 11
_OOM_COUNTS = ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events")


def descriptor(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends, or None if there is no such process.

    It must not be open while this process is being captured.
    """
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def end_of(pid: int, fd: int | None) -> ProcessEnd | None:
    """Return how the process ended, or None if that is not known, or not yet."""
    if fd is not None:
        info = bytearray(_INFO_SIZE)
        struct.pack_into("=Q", info, 0, _EXIT)
        try:
            fcntl.ioctl(fd, _GET_INFO, info)
        except OSError:
            pass
        else:
            if struct.unpack_from("=Q", info)[0] & _EXIT:
                return ProcessEnd.of_status(struct.unpack_from("=i", info, _STATUS_AT)[0])
    return _end_of_zombie(pid)


def memory_kills() -> int | None:
    """Return how many processes the OOM killer killed here, or None if they are not counted."""
    for path in _OOM_COUNTS:
        for line in (access.read(path) or b"").splitlines():
            name, _, count = line.partition(b" ")
            if name == b"oom_kill" and count.isdigit():
                return int(count)
    return None


def _end_of_zombie(pid: int) -> ProcessEnd | None:
    """Read the wait status of a process that has not been reaped, see proc_pid_stat(5)."""
    if (user := access.owner(pid)) is None:
        return None
    with access.reading_as(*user):
        data = access.read(f"/proc/{pid}/stat") or b""
    fields = process_stat.fields(data)
    if len(fields) < 50 or fields[0] != b"Z":
        return None
    status = int(fields[49])
    return ProcessEnd.of_status(status)
