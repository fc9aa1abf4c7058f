"""A process of our own: made, waited for, moved into namespaces of a session, deprived of rights.

A child changes what it can see and do, and ends with that. Does not know its task.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_REASON = 500
"""Characters of an error that are passed on."""
NEWNS, NEWPID, NEWNET = 0x00020000, 0x20000000, 0x40000000
"""Kinds of namespaces (linux/sched.h)."""
CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID = range(5)
NET_ADMIN = 12
SYS_ADMIN = 21
SETFCAP = 31
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_VERSION_3 = 0x20080522
_MOST_CAPABILITIES = 64


def carry_out(work: Callable[[], None], what: str) -> None:
    """Run a function in a child process and wait for it.

    Raises:
        OSError: names `what`, which cannot be done, and the failure in the child.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        reason = b"it ended at once"
        try:
            os.close(reader)
            work()
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 - the last line of a process of its own
            reason = str(error).encode("utf-8", "replace")[:_REASON]
        finally:
            os.write(writer, reason)
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        why = stream.read(_REASON)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise OSError(f"{what}: {why.decode('utf-8', 'replace') or 'it was killed'}")


class SeparateProcess:
    """A child process to be waited for. `returncode` is as in `subprocess.Popen`."""

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


Process = subprocess.Popen[bytes] | SeparateProcess


@contextmanager
def children_in(init_pid: int) -> Iterator[None]:
    """Children begun in the block get their pids in the namespace of `init_pid`.

    setns(2) with a PID namespace moves only children of the caller, so the caller can come back.
    """
    theirs = os.open(f"/proc/{init_pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    ours = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter_namespace(theirs, NEWPID)
        yield
    finally:
        enter_namespace(ours, NEWPID)
        os.close(theirs)
        os.close(ours)


def enter_namespace(namespace: int, kind: int) -> None:
    """Move this process into a namespace of a kind, by an open descriptor of it. Raises OSError."""
    if sys.version_info < (3, 12):
        raise OSError("os.setns came with Python 3.12; the checkpointer's image has 3.13")
    os.setns(namespace, kind)


def keep_capabilities(*numbers: int) -> None:
    """Give up all other capabilities from now on, and every way to regain one.

    Raises:
        OSError: the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(_MOST_CAPABILITIES):
        if number not in numbers:
            libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # fails beyond the last one there is
    _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    bits = sum(1 << number for number in numbers)
    low, high = bits & 0xFFFFFFFF, bits >> 32
    header = struct.pack("Ii", _VERSION_3, 0)
    data = struct.pack("6I", low, low, 0, high, high, 0)
    _checked(libc.capset(ctypes.c_char_p(header), ctypes.c_char_p(data)), "capset")


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
