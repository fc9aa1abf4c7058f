"""Collects ended processes: children whose owners want to know, and orphans.

Where there is a keeper, orphans and the children of supervisors before this one are its children: it collects
them, and reports how they ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
from collections.abc import Callable, Iterator

from holdfast.runtime.guest.jobs.keeper import Keeper

_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Adopt the orphans of every descendant, so that they stay in the tree that is captured."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"cannot adopt orphans: {os.strerror(error)}")


class Reaper:
    """Watches processes. An owner's callback must collect its process itself (it can be a Popen)."""

    def __init__(self, keeper: Keeper | None = None) -> None:
        self.keeper = keeper or Keeper()
        self._statuses: dict[int, int] = {}
        """Of processes that the keeper has collected, until their owners have."""
        self._owners: dict[int, Callable[[], None]] = {}
        self.orphaned: Callable[[int, int, int], None] | None = None
        """Callback for each adopted process that ended: pid, si_code and si_status, see waitid(2)."""
        self._stoppable: dict[int, Callable[[], None]] = {}
        self._held = 0

    def install(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to collect."""
        loop.add_signal_handler(signal.SIGCHLD, self.collect)
        self.keeper.ended = self.ended_elsewhere
        self.keeper.listen(loop)
        self.collect()

    def watch(self, pid: int, ended: Callable[[], None], stopped: Callable[[], None] | None = None) -> None:
        """Call `ended`, which collects the process, when pid has ended; `stopped` when it was stopped."""
        self._owners[pid] = ended
        if stopped:
            self._stoppable[pid] = stopped

    def forget(self, pid: int) -> None:
        """Stop watching pid; it is collected as an orphan if it still exists."""
        self._owners.pop(pid, None)
        self._stoppable.pop(pid, None)

    def status(self, pid: int) -> int:
        """Collect a process that has ended, and return its wait status, see wait(2)."""
        known = self._statuses.pop(pid, None)
        return os.waitpid(pid, 0)[1] if known is None else known

    def ended_elsewhere(self, pid: int, status: int) -> None:
        """Process the end or stop of a process that was the keeper's child."""
        if os.WIFSTOPPED(status):
            if stopped := self._stoppable.get(pid):
                stopped()
            return
        self._stoppable.pop(pid, None)
        if ended := self._owners.pop(pid, None):
            self._statuses[pid] = status
            ended()
            self._statuses.pop(pid, None)
        elif self.orphaned and os.WIFSIGNALED(status):
            self.orphaned(pid, os.CLD_KILLED, os.WTERMSIG(status))
        elif self.orphaned:
            self.orphaned(pid, os.CLD_EXITED, os.WEXITSTATUS(status))

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Collect nothing while a library starts a process whose pid is not known yet."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            self.collect()

    def collect(self) -> None:
        """Collect everything that has ended, and report what has stopped."""
        for pid, stopped in list(self._stoppable.items()):
            with contextlib.suppress(ChildProcessError):
                if os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG):
                    stopped()
        while not self._held:
            try:
                # WNOWAIT: the status belongs to the process's starter.
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if info is None:
                return
            self._stoppable.pop(info.si_pid, None)
            if ended := self._owners.pop(info.si_pid, None):
                ended()
            elif self.orphaned:
                self.orphaned(info.si_pid, info.si_code, info.si_status)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(info.si_pid, os.WNOHANG)
