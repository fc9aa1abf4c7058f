"""A watch on processes that were left running, which reports how they ended.

Ends are detected in three ways: the reaper reports adopted processes; the kernel signals through a descriptor
of the process; and a scan of all processes shows which are missing. Linux 6.15 and newer report an exit
status through the descriptor alone, even after the parent has reaped the process; older kernels only until
then. `deaths.py` decides which ends are reported and why a process died.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
from collections.abc import Callable
from signal import SIGKILL, SIGSTOP, SIGTRAP

from holdfast.procfs import process_stat
from holdfast.runtime.guest.jobs.keeper import SESSION
from holdfast.runtime.guest.jobs.reaper import Reaper
from holdfast.runtime.guest.pulse import access
from holdfast.runtime.guest.pulse.deaths import MemoryKills, ProcessEnd, Roster, is_left
from holdfast.runtime.guest.pulse.origins import Origins
from holdfast.runtime.guest.pulse.process_lineage import SHORT, ScannedProcess
from holdfast.runtime.guest.pulse.sockets import ListeningSockets

_ASK_AGAIN = 0.01
_ASKS = 6
"""Polls for the status: a parent reaps an ended process within moments, until then it can be unknown."""
_JUST_NOW = 0.25
_MAX_DURING = 4
# From linux/pidfd.h: the first 64 bytes of struct pidfd_info, with the mask at the start and the wait status
# at the end, and the request that fills it.
_INFO_SIZE = 64
_STATUS_AT = 60
_EXIT = 1 << 3
_GET_INFO = (3 << 30) | (_INFO_SIZE << 16) | (0xFF << 8) | 11
_BETWEEN_SHORTAGES = 60.0
"""Seconds between two reports that processes cannot be started; a fork bomb is refused all the time."""
_TWIN_BLOCKS = ~sum(1 << number - 1 for number in (SIGTRAP, SIGKILL, SIGSTOP)) & (1 << 64) - 1
_OOM_COUNTS = ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events")
_REFUSALS = ("/sys/fs/cgroup/pids/pids.events", "/sys/fs/cgroup/pids.events")

Report = Callable[..., object]


class DeathWatch:
    """Reports `process_exited`, `oom` and `no_free_process`, and determines why others' processes ended."""

    def __init__(self, origins: Origins, reaper: Reaper, report: Report, kills: int | None = None) -> None:
        """Start watching; `report` is called with the kind and the fields of an entry.

        `kills` is the count of OOM kills that another supervisor has left.
        """
        self._origins = origins
        self._report = report
        self._roster = Roster()
        self._listening = ListeningSockets()
        self._kills = MemoryKills(memory_kills() if kills is None else kills)
        self._refused = refused_starts()
        self._shortage_at = float("-inf")
        self._keeper = reaper.keeper
        self._descriptors: dict[int, int] = {}
        self._asking: set[int] = set()
        self._held = False
        self._deferred: int | None = None
        self._loop = asyncio.get_running_loop()
        origins.observer = self
        reaper.orphaned = self._collected

    def cause(self, end: ProcessEnd) -> str:
        """Return why a process ended that ended just now."""
        self.count_kills()
        return self._kills.cause(end, self._loop.time())

    def count_kills(self) -> None:
        """Check for new OOM kills, and report them."""
        count = memory_kills()
        self._keeper.hold(SESSION, 0, {"kills": count})
        new = self._kills.counted(count, self._loop.time())
        if self._deferred is not None:
            self._deferred += new
        elif new:
            self._report_kills(new)

    def defer_kills(self) -> None:
        """Report OOM kills only after `excuse_kills`: one may be of a process that a capture has made."""
        self._deferred = self._deferred or 0

    def excuse_kills(self, kills: int) -> None:
        """Report the OOM kills so far, but for those of processes that a capture has made."""
        self.defer_kills()
        self.count_kills()
        new, self._deferred = (self._deferred or 0) - kills, None
        self._kills.excuse(kills)
        if new > 0:
            self._report_kills(new)

    def own_kills(self, count: int | None) -> int | None:
        """Return how many OOM kills of this count were of the session's own processes."""
        return None if count is None else max(0, count - self._kills.of_captures)

    def _report_kills(self, new: int) -> None:
        total = self.own_kills(self._kills.count)
        self._report("oom", kills=new, total=total, during=self._during())

    def hold(self) -> None:
        """Release everything that cannot be captured."""
        self._held = True
        for pid in list(self._descriptors):
            self._close(pid)

    def resume(self) -> None:
        """Watch again. Processes that ended in the meantime are found missing."""
        self._held = False
        for pid in self._roster.watched:
            self._open(pid)
        self._origins.look()

    def moved(self, table: list[ScannedProcess]) -> None:
        """Note that all processes were restored."""
        self._roster.moved(table)

    def looked(self, table: list[ScannedProcess]) -> None:
        """Process a scan of all processes."""
        known, running = self._origins.known, self._origins.running
        left = frozenset(each.pid for each in table if is_left(known(each.pid), running))
        new, gone = self._roster.update(table, known, running, self._listening.ports(left), is_twin)
        for each in new:
            self._open(each.pid)
        for each in gone:
            self._ended(each.pid)
        for each in self._roster.watched.values():
            each.command = access.command(each.pid, SHORT) or each.command
        self.count_kills()
        self._count_refused(table)

    def _count_refused(self, table: list[ScannedProcess]) -> None:
        """Report starts of processes that the limit has refused since the last report, with the cause."""
        refused = refused_starts()
        if refused is None or self._refused is None or refused < self._refused:
            self._refused = refused  # that of a different control group
        elif refused > self._refused and self._loop.time() >= self._shortage_at + _BETWEEN_SHORTAGES:
            from holdfast.runtime.guest.pulse import cgroup_limits, process_shortage  # few sessions need them

            new, self._refused, self._shortage_at = refused - self._refused, refused, self._loop.time()
            limit = cgroup_limits.look()["pids"]["limit"]
            found = process_shortage.largest(table, cgroup_limits.own_groups())
            crowd = (
                {}
                if found is None
                else {
                    "group": found.group,
                    "members": found.members,
                    "command": access.command(found.member, SHORT),
                    "remedy": found.remedy,
                }
            )
            self._report("no_free_process", refused=new, limit=limit, **crowd, during=self._during())

    def _open(self, pid: int) -> None:
        if self._held or pid in self._descriptors:
            return
        fd = pidfd_of(pid)
        if fd is not None:
            self._descriptors[pid] = fd
            self._loop.add_reader(fd, self._readable, pid)

    def _close(self, pid: int) -> None:
        fd = self._descriptors.pop(pid, None)
        if fd is not None:
            self._loop.remove_reader(fd)
            os.close(fd)

    def _readable(self, pid: int) -> None:
        self._loop.remove_reader(self._descriptors[pid])  # it stays readable from now on
        self._ended(pid)

    def _ended(self, pid: int) -> None:
        if pid in self._roster.watched and pid not in self._asking:
            self._asking.add(pid)
            self._ask(pid, _ASKS)

    def _ask(self, pid: int, asks: int) -> None:
        if pid not in self._roster.watched:  # the reaper came first
            self._asking.discard(pid)
            return
        end = end_of(pid, self._descriptors.get(pid))
        if end is None and asks:
            self._loop.call_later(_ASK_AGAIN * 2 ** (_ASKS - asks), self._ask, pid, asks - 1)
            return
        self._asking.discard(pid)
        self._report_exit(pid, end or ProcessEnd())

    def _collected(self, pid: int, code: int, status: int) -> None:
        if pid in self._roster.watched:
            self._report_exit(pid, ProcessEnd.of_child(code, status))

    def _report_exit(self, pid: int, end: ProcessEnd) -> None:
        each = self._roster.remove(pid)
        self._close(pid)
        if each is None:
            return
        self._report(
            "process_exited",
            pid=pid,
            command=each.command,
            origin=each.origin.as_dict(),
            exit_code=end.exit_code,
            signal=end.signal,
            cause=self.cause(end),
            ports=list(each.ports),
            during=self._during(),
        )

    def _during(self) -> list[dict[str, str]]:
        """Return the origins of the work at that time, which can have caused it."""
        return [origin.as_dict() for origin in self._origins.active(_JUST_NOW)[-_MAX_DURING:]]


def pidfd_of(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends, or None if there is no such process.

    It must not be open while this process is being captured.
    """
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def is_twin(pid: int) -> bool:
    """Return whether a capture made this process as a copy, or the process has ended.

    A twin is born with all signals blocked that can be, but for SIGTRAP (`borrow` in guard_twins.c). It never
    runs, so this is true until it is collected. No program has that mask by way of the C library, which keeps
    two signals for itself. The state of a twin tells less: it is traced, but no longer so while it is being
    ended, which takes long on a busy machine, nor while its control group is frozen.
    """
    from holdfast.procfs import process_status  # few sessions leave processes running

    data = access.whole(f"/proc/{pid}/status")
    return data is None or process_status.field(data, b"SigBlk") == b"%016x" % _TWIN_BLOCKS


def end_of(pid: int, fd: int | None) -> ProcessEnd | None:
    """Return how the process ended, or None if that is not known, or not yet."""
    if fd is not None:
        info = bytearray(_INFO_SIZE)
        struct.pack_into("=Q", info, 0, _EXIT)
        try:
            fcntl.ioctl(fd, _GET_INFO, info)
        except OSError:
            pass
        else:
            if struct.unpack_from("=Q", info)[0] & _EXIT:
                return ProcessEnd.of_status(struct.unpack_from("=i", info, _STATUS_AT)[0])
    return _end_of_zombie(pid)


def memory_kills() -> int | None:
    """Return how many processes the OOM killer killed here, or None if they are not counted."""
    return _counted(_OOM_COUNTS, b"oom_kill")


def refused_starts() -> int | None:
    """Return how many starts of processes and threads the limit refused, or None if they are not counted."""
    return _counted(_REFUSALS, b"max")


def _counted(paths: tuple[str, ...], wanted: bytes) -> int | None:
    for path in paths:
        for line in (access.read(path) or b"").splitlines():
            name, _, count = line.partition(b" ")
            if name == wanted and count.isdigit():
                return int(count)
    return None


def _end_of_zombie(pid: int) -> ProcessEnd | None:
    """Read the wait status of a process that has not been reaped, see proc_pid_stat(5)."""
    if (user := access.owner(pid)) is None:
        return None
    with access.reading_as(*user):
        data = access.read(f"/proc/{pid}/stat") or b""
    fields = process_stat.fields(data)
    if len(fields) < 50 or fields[0] != b"Z":
        return None
    status = int(fields[49])
    return ProcessEnd.of_status(status)
