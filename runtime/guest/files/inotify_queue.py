"""One inotify instance of the kernel: watches are added to it, events are read from it.

Owns the descriptor and the calls; knows neither what events mean nor which folders belong together.

The kernel limits the instances and watches of a user (inotify(7)), and root of all sessions and of the host
is one user. An instance of ours is counted for a user that nothing else is: the effective one of the thread
that makes it. So other sessions can take neither from it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

MODIFY = 0x2
ATTRIB = 0x4
MOVED_FROM = 0x40
MOVED_TO = 0x80
CREATE = 0x100
DELETE = 0x200
DELETE_SELF = 0x400
MOVE_SELF = 0x800
OVERFLOW = 0x4000
IGNORED = 0x8000
ISDIR = 0x40000000
"""Bits of a mask; inotify(7), and linux/inotify.h for their numbers."""
_HEAD = struct.Struct("=iIII")
_ONLY_FOLDERS, _NOT_UNLINKED = 0x01000000, 0x04000000
_WANTED = (
    (MODIFY | ATTRIB | MOVED_FROM | MOVED_TO)
    | (CREATE | DELETE | DELETE_SELF | MOVE_SELF)
    | (_ONLY_FOLDERS | _NOT_UNLINKED)
)
_READ = 64 << 10
"""Bytes of events in one read: about two thousand."""
_LIMITS = Path("/proc/sys/fs/inotify")
_SETRESUID = {"x86_64": 117, "aarch64": 147}.get(os.uname().machine)
_PR_SET_PDEATHSIG, _PR_GET_PDEATHSIG, _PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 1, 2, 3, 4
_FIRST_USER = 1 << 30
_SAME = ctypes.c_long(-1)
_libc = ctypes.CDLL(None, use_errno=True)


class RawEvent(NamedTuple):
    """One event: the number of its watch, its mask, and the name in the watched folder.

    Without a name it concerns the folder itself; names that are no UTF-8 have lone surrogates.
    """

    watch: int
    mask: int
    name: str


def parse(data: bytes) -> Iterator[RawEvent]:
    """Yield the events in what one read returned, which has only whole ones."""
    at = 0
    while at < len(data):
        watch, mask, _, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        name = data[at : at + length].split(b"\0", 1)[0]
        at += length
        yield RawEvent(watch, mask, os.fsdecode(name))


class WatchLimit(OSError):
    """Something more would have to be watched than is allowed. The message says what."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.ENOSPC, why)


class InotifyQueue:
    """A queue of events; to be closed."""

    def __init__(self) -> None:
        """Make one.

        Raises:
            WatchLimit: the user has as many as the kernel allows.
            OSError: it cannot be made.
        """
        with _as_nobody_else():
            self.descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.descriptor < 0:
            raise _error("instances", errno.EMFILE)

    def add(self, folder: int) -> int:
        """Watch an open folder, with the rights of this thread; return its number, always the same for one.

        Raises:
            WatchLimit: the user watches as many as the kernel allows.
            OSError: it may not be read.
        """
        number: int = _libc.inotify_add_watch(self.descriptor, b"/proc/self/fd/%d" % folder, _WANTED)
        if number < 0:
            raise _error("watches", errno.ENOSPC)
        return number

    def remove(self, number: int) -> None:
        """End a watch, if there is still one of that number."""
        _libc.inotify_rm_watch(self.descriptor, number)

    def read(self) -> list[RawEvent]:
        """Return the next queued events; an empty list if the queue is empty."""
        try:
            return list(parse(os.read(self.descriptor, _READ)))
        except BlockingIOError:
            return []

    def close(self) -> None:
        """End it with all its watches."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


@contextmanager
def _as_nobody_else() -> Iterator[None]:
    """Let this thread act as a user of a drawn number, if it may; what ctypes knows of errno stays."""
    own = os.geteuid()
    dumpable, ends_by = _libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0), ctypes.c_int()
    _libc.prctl(_PR_GET_PDEATHSIG, ctypes.byref(ends_by), 0, 0, 0)
    if not _act_as(_FIRST_USER | int.from_bytes(os.urandom(4), "big") >> 2):
        yield
        return
    try:
        yield
    finally:
        number = ctypes.get_errno()
        if not _act_as(own):
            os.abort()  # with the rights of no one it could only do harm
        # Who changes users loses both: credentials(7), prctl(2).
        if dumpable == 1:
            _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
        if ends_by.value:
            _libc.prctl(_PR_SET_PDEATHSIG, ends_by.value, 0, 0, 0)
        ctypes.set_errno(number)


def _act_as(user: int) -> bool:
    """Change the effective user of this thread alone: the C library would have all threads follow."""
    return _SETRESUID is not None and _libc.syscall(_SETRESUID, _SAME, ctypes.c_long(user), _SAME) == 0


def _error(what: str, limited: int) -> Exception:
    number = ctypes.get_errno()
    if number != limited:
        return OSError(number, os.strerror(number))
    name, value = f"max_user_{what}", "?"
    with suppress(OSError):
        value = (_LIMITS / name).read_text().strip()
    return WatchLimit(f"the kernel's limit is reached (fs.inotify.{name} is {value})")
