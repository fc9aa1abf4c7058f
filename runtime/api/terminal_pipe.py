"""The output of a job as a descriptor that becomes readable, for readers of descriptors.

Owns the thread that passes the output on, and the offset of the unread part. It must not know who reads it.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import termios
import threading
import time
from collections.abc import Callable
from typing import Protocol

from holdfast.errors import HoldfastError
from holdfast.runtime.api.job_info import JobInfo
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.program_result import ProgramResult
from holdfast.runtime.guest_rpc.results import ExecResult

_STEP = 0.05  # seconds; a pipe that has some room, but not for what is to be written as a whole


class RunningJob(Protocol):
    """A job, in process or over a URL."""

    id: str

    def info(self) -> JobInfo:
        """Return its current state, as the session reports it."""

    def wait(
        self,
        *,
        on_bytes: Callable[[bytes], object] | None = None,
        on_offset: Callable[[int], object] | None = None,
        start: int | None = None,
        wait: bool = False,
        patience: float | Patience | None = None,
        raw: bool = False,
    ) -> ExecResult:
        """Pass on its output, until it ends."""

    def send(self, text: str | bytes) -> None:
        """Type text into its terminal."""

    def resize(self, rows: int, cols: int) -> None:
        """Change the size of its terminal."""

    def signal(self, name: str = "TERM") -> None:
        """Send a signal to all processes in its terminal."""


class SessionWithJobs(Protocol):
    """A session, in process or over a URL."""

    @property
    def detach(self) -> Callable[..., RunningJob]:
        """Starts a command on a terminal of its own."""

    @property
    def job(self) -> Callable[[str], RunningJob]:
        """Returns a job by its id."""

    @property
    def run(self) -> Callable[..., ProgramResult]:
        """Runs a program to its end."""


class TerminalPipe:
    """Passes the output of a job on to a pipe, which buffers it until it is read."""

    def __init__(self, job: RunningJob, start: int) -> None:
        self.descriptor, self._into = os.pipe()
        os.set_blocking(self._into, False)
        self.error: HoldfastError | None = None
        """Why it stopped before the end of the job."""
        self.result: ExecResult | None = None
        """The end of the job, once all of its output is in the pipe."""
        self._job = job
        self._patience = Patience()
        self._passed = start
        self._lock = threading.Lock()  # of `_passed` and the pipe's content, which belong together
        self._thread = threading.Thread(
            target=self._run, args=(start,), name=f"output of {job.id}", daemon=True
        )
        self._thread.start()

    @property
    def offset(self) -> int:
        """The offset of the next read."""
        with self._lock:
            return self._passed - self.unread()

    def unread(self) -> int:
        """Return the capacity of the pipe in bytes."""
        return int(struct.unpack("i", fcntl.ioctl(self.descriptor, termios.FIONREAD, b"\0" * 4))[0])

    def end(self) -> None:
        """Stop, and close the pipe."""
        self._patience.end()
        os.close(self.descriptor)
        self._thread.join()

    def _run(self, start: int) -> None:
        try:
            self.result = self._job.wait(
                on_bytes=self._pass,
                on_offset=self._reached,
                start=start,
                wait=True,
                raw=True,
                patience=self._patience,
            )
        except HoldfastError as error:
            self.error = error
        finally:
            os.close(self._into)

    def _pass(self, data: bytes) -> None:
        room = select.poll()
        room.register(self._into, select.POLLOUT)
        left = memoryview(data)
        while left and not self._patience.ended:
            room.poll()  # until it is read, or its other end is closed
            try:
                with self._lock:
                    count = os.write(self._into, left)
                    self._passed += count
            except BlockingIOError:  # less than PIPE_BUF is free
                time.sleep(_STEP)
                continue
            except BrokenPipeError:
                self._patience.end()
                return
            left = left[count:]

    def _reached(self, offset: int) -> None:
        """Record the output's offset; some of it can be lost."""
        with self._lock:
            if not self._patience.ended:
                self._passed = offset
