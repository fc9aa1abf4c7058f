"""Copies the contents of one file of a session, and checks whether a process can be writing to it.

A long write(2) sets the file's times when it begins, not when it ends. So the times reveal a later change
only if no process has the file open for writing at that time.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable

_PIECE = 1 << 20
_RANGE = 32 << 20
"""Bytes that one call copies: on a slow disk a few seconds' worth."""
LEAST_HOLE = 64 << 10
"""Bytes of a hole that is noted."""
MOST_HOLES = 100_000
"""Holes that are noted of all files of a copy."""
# copy_file_range(2) refuses between some file systems, and on some.
_USE_READ = {errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.ETXTBSY, errno.EBADF}


def written_by_nobody(source: int) -> bool:
    """Check that no process has the file open for writing, or mapped for it.

    The kernel grants a lease for reading only then (fcntl(2), F_SETLEASE). It is given back immediately: a
    process that opens the file in between waits for microseconds.
    """
    try:
        fcntl.fcntl(source, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError:
        return False
    fcntl.fcntl(source, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return True


def copy(
    source: int,
    target: int,
    offset: int,
    size: int,
    check: Callable[[], None],
    most: int = MOST_HOLES,
) -> list[list[int]]:
    """Copy `size` bytes to `offset` except holes, and return these: offsets in the file, and lengths.

    Data after a hole directly follows the data before it there. Smaller holes, and those beyond the first
    `most`, are zeros in the copy; so is the rest if the file has become shorter. `check` is called now and
    then, and ends the copy by raising.

    Raises:
        OSError: a file cannot be read or written.
    """
    holes: list[list[int]] = []
    position, to = 0, offset
    while position < size:
        begin, end = _data_after(source, position, size)
        if begin - position >= LEAST_HOLE and len(holes) < most:
            holes.append([position, begin - position])
        else:
            to += begin - position
        _copy_range(source, target, begin, to, end - begin, check)
        to += end - begin
        position = end
    return holes


def _data_after(source: int, position: int, size: int) -> tuple[int, int]:
    """Return where the next data of a file begins and ends; both are its size if there is only a hole."""
    try:
        begin = min(os.lseek(source, position, os.SEEK_DATA), size)
        return begin, max(min(os.lseek(source, begin, os.SEEK_HOLE), size), min(position + 1, size))
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing but a hole from here
            return size, size
        if error.errno != errno.EINVAL:  # the file system knows of no holes
            raise
        return position, size


def move(source: int, target: int, begin: int, to: int, count: int) -> None:
    """Copy part of a file to a place in another.

    Raises:
        OSError: a file cannot be read or written.
    """
    _copy_range(source, target, begin, to, count, lambda: None)


def _copy_range(source: int, target: int, begin: int, to: int, count: int, check: Callable[[], None]) -> None:
    while count > 0:
        check()
        try:
            done = os.copy_file_range(source, target, min(count, _RANGE), begin, to)
        except OSError as error:
            if error.errno not in _USE_READ:
                raise
            done = os.pwrite(target, os.pread(source, min(count, _PIECE), begin), to)
        if not done:  # it has become shorter
            return
        begin, to, count = begin + done, to + done, count - done
