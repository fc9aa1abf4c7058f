"""Ties a session to the processes that still owe it a part of its memory.

Memory that is restored on demand is served by a process of the checkpointer. If such a process ends early,
the kernel gives zeros for missing memory (userfaultfd(2)), and the session would continue with them. So the
session's first process is traced until then, with PTRACE_O_EXITKILL (ptrace(2)): if the tracer dies, for
whatever reason, the kernel ends it, and with it all of its PID namespace.
"""

from __future__ import annotations

import ctypes
import os
import signal

from holdfast.snapshots.checkpointer.ground.separate_process import Process

_SEIZE, _INTERRUPT, _LISTEN, _CONT, _DETACH = 0x4206, 0x4207, 0x4208, 7, 17
_EXITKILL = 0x100000
_EVENT_STOP = 128
_WALL = 0x40000000
_GROUP_STOPS = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}


class Lifeline:
    """Holds one process; the thread that makes it must also make all its other calls."""

    def __init__(self, pid: int) -> None:
        """Begin to hold a process, which continues as before.

        Raises:
            OSError: it cannot be traced.
        """
        self._pid = pid
        self._ended = False
        _ptrace(_SEIZE, pid, _EXITKILL)

    def wait(self, child: Process) -> int:
        """Wait for the end of a child of this process, and return its status.

        When the held process has ended, with it all of its PID namespace, the child is ended as well.
        """
        while child.returncode is None:
            pid, status = os.waitpid(-1, _WALL)
            if pid == child.pid:
                child.returncode = os.waitstatus_to_exitcode(status)
            elif pid == self._pid:
                self._pass_on(status)
                if self._ended:
                    os.kill(child.pid, signal.SIGKILL)
        return child.returncode

    def end(self) -> None:
        """End the process."""
        if not self._ended:
            os.kill(self._pid, signal.SIGKILL)

    def let_go(self) -> None:
        """Release the process. It continues, whatever happens to this one."""
        if self._ended:
            return
        _ptrace(_INTERRUPT, self._pid)
        while not self._ended:
            _, status = os.waitpid(self._pid, _WALL)
            if os.WIFSTOPPED(status) and status >> 16 == _EVENT_STOP:
                _ptrace(_DETACH, self._pid)
                return
            self._pass_on(status)

    def _pass_on(self, status: int) -> None:
        """Deliver the signal that the process was stopped for."""
        if not os.WIFSTOPPED(status):
            self._ended = True
            return
        number = os.WSTOPSIG(status)
        if status >> 16 != _EVENT_STOP:
            _ptrace(_CONT, self._pid, number)
        elif number in _GROUP_STOPS:
            _ptrace(_LISTEN, self._pid)
        else:
            _ptrace(_CONT, self._pid)


def _ptrace(request: int, pid: int, data: int = 0) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.ptrace(request, pid, ctypes.c_void_p(0), ctypes.c_void_p(data))
    # A process that was killed meanwhile is found to be gone by the next wait.
    if result < 0 and not (request != _SEIZE and ctypes.get_errno() == 3):
        raise OSError(ctypes.get_errno(), "ptrace")
