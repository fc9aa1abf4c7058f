"""Reads and writes memory of other processes (process_vm_readv(2)), including memory that is loaded on
demand.

/proc/PID/mem would not do: there the kernel returns EIO for a page that its server still holds
(userfaultfd(2)).
"""

from __future__ import annotations

import ctypes


class _MappedPart(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


def read(pid: int, address: int, size: int) -> bytes:
    """Read memory of a process.

    Raises:
        OSError: not all of it exists.
    """
    data = ctypes.create_string_buffer(size)
    _transfer("process_vm_readv", pid, data, address, size)
    return data.raw


def write(pid: int, address: int, data: bytes) -> None:
    """Write memory of a process.

    Raises:
        OSError: it does not exist, or its process may not write it either.
    """
    _transfer("process_vm_writev", pid, ctypes.create_string_buffer(data, len(data)), address, len(data))


def _transfer(call: str, pid: int, data: ctypes.Array[ctypes.c_char], address: int, size: int) -> None:
    ours, theirs = _MappedPart(ctypes.addressof(data), size), _MappedPart(address, size)
    number = ctypes.c_ulong
    done = ctypes.CDLL(None, use_errno=True)[call](
        ctypes.c_int(pid), ctypes.byref(ours), number(1), ctypes.byref(theirs), number(1), number(0)
    )
    if done != size:
        raise OSError(ctypes.get_errno() if done < 0 else 0, call)
