"""The reading end of a pipe, recorded as it comes; the writer waits for a reader of it that is far behind.

Without any reader the record keeps the end of what was written, and the writer does not wait.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from holdfast.runtime.guest.records.streamlog import StreamLog

CAPACITY = 64 << 20
SEGMENT = 4 << 20
LAG = 32 << 20
"""Bytes that a reader may be behind before the writer waits for it."""
ABSENCE = 30.0
"""Seconds for which a reader that was cut off is waited for: a capture ends within ten."""
READ_SIZE = 256 << 10
READS_PER_TURN = 16


class RecordedPipe:
    """One stream of a program."""

    def __init__(self, descriptor: int, folder: Path, wake: Callable[[], None]) -> None:
        """Record from now on; `wake` is called after each piece."""
        self.log = StreamLog(folder, CAPACITY, SEGMENT)
        self.end: int | None = None
        """The offset at which the program had ended; those it left behind may write more."""
        self._descriptor: int | None = descriptor
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._reading = False
        self._readers: dict[object, tuple[int, float | None]] = {}
        self._later: asyncio.TimerHandle | None = None
        os.set_blocking(descriptor, False)
        self._flow()

    def hold(self, reader: object, position: int) -> None:
        """Note how far a reader has come: the writer does not get away from it."""
        self._readers[reader] = (position, None)
        self._flow()

    def release(self, reader: object, *, finished: bool) -> None:
        """Note that a reader left; one that has not finished is expected back for a while."""
        position, _ = self._readers.pop(reader, (0, None))
        if not finished:
            self._readers[reader] = (position, self._loop.time() + ABSENCE)
        self._flow()

    def drain(self) -> None:
        """Record what the pipe holds now, however far behind a reader is; a pipe holds at most 1 MiB."""
        for _ in range(READS_PER_TURN):
            if self._descriptor is None or not self._take():
                return

    def close(self) -> None:
        """Record no more."""
        self._stop()
        if self._later is not None:
            self._later.cancel()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self.log.rest()

    def _flow(self) -> None:
        """Read, or let the writer wait."""
        now = self._loop.time()
        gone = [each for each, (_, until) in self._readers.items() if until is not None and until < now]
        for each in gone:
            del self._readers[each]
        slowest = min((position for position, _ in self._readers.values()), default=None)
        if slowest is not None and self.log.end - slowest > LAG:
            self._stop()
            if self._later is None:
                self._later = self._loop.call_later(ABSENCE / 10, self._again)
        elif self._descriptor is not None and not self._reading:
            self._reading = True
            self._loop.add_reader(self._descriptor, self._turn)

    def _again(self) -> None:
        self._later = None
        self._flow()

    def _turn(self) -> None:
        for _ in range(READS_PER_TURN):
            if not self._take():
                break
        self._flow()

    def _take(self) -> bool:
        assert self._descriptor is not None
        try:
            data = os.read(self._descriptor, READ_SIZE)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        self.log.append(data)
        self._wake()
        return True

    def _stop(self) -> None:
        if self._reading and self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
        self._reading = False
