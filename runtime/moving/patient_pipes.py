"""The two pipes to a receiver, where every wait has an end: it may be silent, drip, or read nothing.

Knows bytes and seconds, and nothing of what is sent.
"""

from __future__ import annotations

import io
import os
import select
import time
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from holdfast.runtime.moving.move_wire import WireBroken

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STUCK = 600.0
"""Seconds in which some of what is sent must be taken: disks can be slow, and networks busy."""


class PatientReader(io.RawIOBase):
    """A pipe that is read until a moment; whatever has come by then, an answer has not."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__()
        self._pipe = pipe
        self._seconds, self._until = 0.0, 0.0

    def allow(self, seconds: float) -> None:
        """Set how long may be read from now on."""
        self._seconds, self._until = seconds, time.monotonic() + seconds

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read what there is.

        Raises:
            WireBroken: nothing came in time.
        """
        view = memoryview(buffer)
        if not _ready(self._pipe.fileno(), select.POLLIN, self._until - time.monotonic()):
            raise WireBroken(f"it has not answered for {self._seconds:g} s")
        data = os.read(self._pipe.fileno(), len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the pipe."""
        self._pipe.close()
        super().close()


class PatientWriter:
    """A pipe that is written to as long as some of it is taken now and then."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        os.set_blocking(pipe.fileno(), False)

    def write(self, data: bytes) -> None:
        """Write all of it.

        Raises:
            WireBroken: the other side has ended, or takes nothing.
        """
        view = memoryview(data)
        while view:
            if not _ready(self._pipe.fileno(), select.POLLOUT, STUCK):
                raise WireBroken(f"it has taken nothing for {STUCK:g} s")
            try:
                view = view[os.write(self._pipe.fileno(), view) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise WireBroken("the connection ended") from error

    def close(self) -> None:
        """Close the pipe."""
        with suppress(OSError):
            self._pipe.close()


def _ready(descriptor: int, event: int, seconds: float) -> bool:
    """Wait until a pipe is ready, or broken, which the next call tells; false if that takes too long."""
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(max(0, int(seconds * 1000))))
