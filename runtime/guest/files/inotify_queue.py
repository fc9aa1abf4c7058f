"""One inotify instance of the kernel: watches are added to it, events are read from it.

Owns the descriptor and the calls; knows neither what events mean nor which folders belong together.
"""

from __future__ import annotations

import ctypes
import errno
import os
from contextlib import suppress
from pathlib import Path

from holdfast.runtime.guest.files import inotify_events as events

_ONLY_FOLDERS, _NOT_UNLINKED = 0x01000000, 0x04000000
_WANTED = (
    (events.MODIFY | events.ATTRIB | events.MOVED_FROM | events.MOVED_TO)
    | (events.CREATE | events.DELETE | events.DELETE_SELF | events.MOVE_SELF)
    | (_ONLY_FOLDERS | _NOT_UNLINKED)
)
_READ = 64 << 10
"""Bytes of events in one read: about two thousand."""
_LIMITS = Path("/proc/sys/fs/inotify")
_libc = ctypes.CDLL(None, use_errno=True)


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

    def read(self) -> list[events.RawEvent]:
        """Return the next queued events; an empty list if the queue is empty."""
        try:
            return list(events.parse(os.read(self.descriptor, _READ)))
        except BlockingIOError:
            return []

    def close(self) -> None:
        """End it with all its watches."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def _error(what: str, limited: int) -> Exception:
    number = ctypes.get_errno()
    if number != limited:
        return OSError(number, os.strerror(number))
    name, value = f"max_user_{what}", "?"
    with suppress(OSError):
        value = (_LIMITS / name).read_text().strip()
    return WatchLimit(f"the kernel's limit is reached (fs.inotify.{name} is {value})")
