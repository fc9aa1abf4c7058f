"""A child process that was not started by `subprocess`, with as much of its interface as is used."""

from __future__ import annotations

import os
import signal
import subprocess


class Child:
    """A process that is to be waited for here. `returncode` is as that of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return its status if it has ended."""
        return self._ask(os.WNOHANG)

    def wait(self) -> int:
        """Wait until it has ended and return its status."""
        while (status := self._ask(0)) is None:
            pass
        return status

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it, if it has not ended."""
        self.send_signal(signal.SIGKILL)

    def _ask(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid == self.pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


Process = subprocess.Popen[bytes] | Child
