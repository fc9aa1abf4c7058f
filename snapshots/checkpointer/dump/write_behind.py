"""Writing of a file in parallel with reading its next data, and with the disk's own writes.

Does not know the content. Reading and writing each copy all of it, which two processors do in parallel; and
a sync at the end of a gigabyte finds most of it on the disk.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

BUFFERS = 4
"""One is filled, one is written, the others are for whichever is faster."""
STRETCH = 16 << 20
"""Bytes after which the disk begins."""
_SYNC_FILE_RANGE_WRITE = 2


class WriteBehind:
    """Pieces of a file, written in order by a thread of its own, from the file's position. To be closed."""

    def __init__(self, file: int, piece: int, *, hurried: bool = False) -> None:
        """Begin, with pieces of up to this many bytes. If `hurried`, the disk is left to later."""
        self._file = file
        self._hurried = hurried
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="write-behind")
        self._free = [bytearray(piece) for _ in range(BUFFERS)]
        self._under_way: deque[tuple[Future[None], bytearray]] = deque()
        self._begun = 0

    def close(self) -> None:
        """Wait until all writes have ended, even after a failure."""
        self._pool.shutdown(cancel_futures=True)

    def buffer(self) -> bytearray:
        """Return a buffer that can be filled.

        Raises:
            OSError: earlier data cannot be written.
        """
        if not self._free:
            self._settle_one()
        return self._free.pop()

    def send(self, data: bytearray, runs: Iterable[tuple[int, int]]) -> None:
        """Write parts of a buffer, each by offset and size; the buffer must not change any more."""
        self._under_way.append((self._pool.submit(self._write, data, list(runs)), data))

    def settle(self) -> None:
        """Wait until all data are written, after which the file can be written in other ways.

        Raises:
            OSError: it cannot be written.
        """
        while self._under_way:
            self._settle_one()

    def _settle_one(self) -> None:
        work, data = self._under_way.popleft()
        work.result()
        self._free.append(data)

    def _write(self, data: bytearray, runs: list[tuple[int, int]]) -> None:
        with memoryview(data) as view:
            for offset, size in runs:
                end = offset + size
                while offset < end:
                    offset += os.write(self._file, view[offset:end])
        at = os.lseek(self._file, 0, os.SEEK_CUR)
        if at - self._begun >= STRETCH and not self._hurried:
            _begin_to_sync(self._file, self._begun, at - self._begun)
            self._begun = at


def _begin_to_sync(file: int, offset: int, size: int) -> None:
    """Start writing a part of a file to the disk (sync_file_range(2)); if that fails, a later sync writes
    it."""
    ctypes.CDLL(None).sync_file_range(
        file, ctypes.c_int64(offset), ctypes.c_int64(size), ctypes.c_uint(_SYNC_FILE_RANGE_WRITE)
    )
