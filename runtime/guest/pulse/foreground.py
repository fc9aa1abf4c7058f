"""The processes in the foreground of a terminal, and the call that blocks each of their threads.

A driver: it reads `/proc` and the terminal, and holds no file open between two scans. It owns which files are
read and how seldom; `terminal_state.py` decides what the findings mean.
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios
import time
from collections.abc import Callable
from contextlib import suppress

from holdfast.base.value_classes import dataclass, field
from holdfast.procfs import descriptor_links, process_status, socket_tables
from holdfast.procfs.process_stat import Stat
from holdfast.runtime.guest.pulse import access, terminal_state
from holdfast.runtime.guest.pulse.input_kind import InputModes, Prompt
from holdfast.runtime.guest.pulse.terminal_state import (
    DescriptorKind,
    ForegroundSample,
    ForegroundThread,
    SystemCall,
    ThreadActivity,
    WaitingVerdict,
    decide,
    thing,
)

REFRESH = 0.1
"""Minimum seconds between two scans of the processes and of how much they compute."""
THRIFT = 100
"""Multiple of the last scan's duration to wait at least before the next. After new output, a fifth
of both.
"""
HOT = 0.4
"""Share of a processor from which on a process counts as computing."""
MAX_THREADS = 400
VISITS = 0.5
"""Minimum seconds between two searches for programs elsewhere that read the terminal."""
_MAX_GUESSED = 16
_SLAVES = 136
"""Major number of the devices in /dev/pts, see pts(4)."""


@dataclass(slots=True)
class ForegroundProcess:
    """A member of a foreground process group."""

    stat: Stat
    owner: tuple[int, int]
    tids: list[int]
    share: float | None = None
    blocked: dict[int, ForegroundThread] = field(default_factory=dict)
    """The call that each thread was last blocked on; its line is in `lines`."""
    lines: dict[int, bytes] = field(default_factory=dict)
    runs: bool = False
    ran: bool = False


@dataclass(frozen=True, slots=True)
class Sight:
    """One sample of a terminal: the verdict, and the call of the thread that explains it, to recognize it."""

    verdict: WaitingVerdict
    line: bytes = b""
    prompt: Prompt = field(default_factory=Prompt)


class ForegroundGroup:
    """The foreground process group of one terminal, and of the terminals its programs keep for others."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._group = 0
        self._table: dict[int, Stat] = {}
        self._members: dict[int, ForegroundProcess] = {}
        self._refreshed = -1.0
        self._refresh_after = 0.0
        self._output = -1
        self.spare = 0.0
        """Seconds of the last scan already paid for by a longer wait until the next."""
        self._inner: ForegroundGroup | None = None
        self._visitors: dict[int, tuple[Stat, ForegroundThread, bytes]] = {}
        self._visits_after = 0.0

    def forget(self) -> None:
        """Scan the processes again at the next sample."""
        self._refreshed = -1.0

    def look(self, fd: int, root: int, group: int, output: int, prompt: Callable[[], Prompt]) -> Sight | None:
        """Return the activity of a terminal's foreground; None while a tracer holds it: a capture, a
        debugger.

        `fd` is the master side, `root` the terminal's leader, `output` how much was written: a program that
        has just started and asks for something has written its question.
        """
        now = self._clock()
        new = group != self._group or self._refreshed < 0
        wait = self._refresh_after * (0.2 if output != self._output else 1)
        self.spare = 0.0
        if new or now - self._refreshed >= wait:
            began = time.perf_counter()
            self._refresh(_table(root, group), group, now)
            took = time.perf_counter() - began
            self._refresh_after, self._output = max(REFRESH, THRIFT * took), output
            self.spare = 0.0 if new else took
        if any(process.stat.state == "t" for process in self._members.values()):
            self.forget()  # it was interrupted in what it did, and will continue with it
            return None
        index = struct.unpack("i", fcntl.ioctl(fd, _TIOCGPTN, bytes(4)))[0]
        return self._judge(_modes(fd), index, prompt)

    def turns(self, verdict: WaitingVerdict) -> int:
        """Return the number of context switches of a thread: it stays the same while that is blocked."""
        data = access.read(f"/proc/{verdict.pid}/task/{verdict.tid}/status") or b""
        names = (b"voluntary_ctxt_switches", b"nonvoluntary_ctxt_switches")
        return sum(int(process_status.field(data, name) or 0) for name in names)

    def _judge(self, modes: InputModes, index: int, prompt: Callable[[], Prompt]) -> Sight:
        names = (f"/dev/pts/{index}", "/dev/tty")
        threads = [thread for process in self._members.values() for thread in self._threads(process, names)]
        if not modes.canonical and (relay := _relay(threads)):
            inner = self._within(relay, index, prompt)
            if inner is not None:
                return inner
        if not (modes.canonical and modes.echo) and not any(thread.on_terminal for thread in threads):
            self._search(index)
            threads += [thread for _, thread, _ in self._visitors.values()]
        else:
            self._visitors.clear()
        asked = prompt() if any(thread.on_terminal for thread in threads) else Prompt()
        visitors = {pid: stat.name for pid, (stat, _, _) in self._visitors.items()}
        verdict = decide(
            ForegroundSample(
                threads,
                modes,
                asked,
                {pid: process.stat.name for pid, process in self._members.items()} | visitors,
                {pid: stat.parent for pid, stat in self._table.items()},
                frozenset(pid for pid, process in self._members.items() if (process.share or 0) >= HOT),
                frozenset(
                    pid
                    for pid, process in self._members.items()
                    if (process.share or 0) >= HOT and (process.runs or process.ran)
                ),
            )
        )
        process = self._members.get(verdict.pid or 0)
        line = process.lines.get(verdict.tid or 0, b"") if process else b""
        if verdict.pid in self._visitors:
            line = self._visitors[verdict.pid][2]
        return Sight(verdict, line, asked)

    def _search(self, index: int) -> None:
        """Look for programs that read this terminal and were not started from it.

        A pinentry is one: gpg in the foreground waits for its agent, and that has the terminal's name.
        """
        now, began = self._clock(), time.perf_counter()
        is_due = now >= self._visits_after
        candidates = access.numbers("/proc") if is_due else list(self._visitors)
        self._visitors.clear()
        for pid in candidates:
            stat = None if pid in self._members or pid == os.getpid() else access.stat(pid)
            if stat is not None and stat.state == "S" and (found := _visitor(stat, f"/dev/pts/{index}")):
                self._visitors[pid] = (stat, *found)
        if is_due:
            self._visits_after = now + max(VISITS, THRIFT * (time.perf_counter() - began))

    def _refresh(self, table: dict[int, Stat], group: int, now: float) -> None:
        old = self._members
        elapsed = now - self._refreshed if self._refreshed >= 0 else 0.0
        self._table, self._group, self._refreshed = table, group, now
        self._members = {}
        count = 0
        for stat in table.values():
            if stat.group != group or stat.state in "ZX" or count >= MAX_THREADS:
                continue
            owner = access.owner(stat.pid)
            if owner is None:
                continue
            tids = access.numbers(f"/proc/{stat.pid}/task") if stat.threads > 1 else [stat.pid]
            count += len(tids)
            known = old.get(stat.pid)
            process = self._members[stat.pid] = ForegroundProcess(stat, owner, tids)
            if known and known.stat.start == stat.start:
                # Do not keep lines: in the same call, a descriptor may refer to another file by now.
                process.blocked = known.blocked
                process.runs, process.ran = known.runs, known.ran
                process.share = known.share
                if elapsed > 0:
                    process.share = (stat.cpu - known.stat.cpu) / elapsed

    def _threads(self, process: ForegroundProcess, names: tuple[str, str]) -> list[ForegroundThread]:
        pid = process.stat.pid
        process.ran, process.runs = process.runs, False
        if process.stat.state == "T":
            return [ForegroundThread(pid, pid, SystemCall(ThreadActivity.STOPPED))]
        found = []
        with access.reading_as(*process.owner):
            for tid in process.tids:
                line = access.read(f"/proc/{pid}/task/{tid}/syscall", 256)
                if line is None:
                    stat = access.stat(pid)
                    if stat is None or stat.state in "ZX":
                        self._refreshed = -1.0
                    elif tid == pid:
                        call = SystemCall(ThreadActivity.RUNS if stat.state == "R" else ThreadActivity.CLOSED)
                        found.append(ForegroundThread(pid, tid, call))
                else:
                    found.append(self._thread(process, tid, line, names))
        return found

    def _thread(
        self, process: ForegroundProcess, tid: int, line: bytes, names: tuple[str, str]
    ) -> ForegroundThread:
        known = process.blocked.get(tid)
        if known and process.lines.get(tid) == line and known.call.doing is not ThreadActivity.EPOLLS:
            return known
        call = terminal_state.parse(line)
        if call.doing is ThreadActivity.RUNS:
            process.runs = True
            # A thread that computes little is between two calls of the same kind as before.
            if known and not process.ran and process.share is not None and process.share < HOT:
                return ForegroundThread(
                    process.stat.pid, tid, known.call, known.things - {DescriptorKind.TERMINAL}
                )
            return ForegroundThread(process.stat.pid, tid, call)
        if terminal_state.restarted(line):
            call = _guessed(process.stat.pid, call)
        found = ForegroundThread(process.stat.pid, tid, call, _things(process.stat.pid, call, names))
        process.blocked[tid], process.lines[tid] = found, line
        return found

    def _within(self, relay: int, index: int, prompt: Callable[[], Prompt]) -> Sight | None:
        """Sample the terminal that a program keeps for a second one that it runs."""
        own = os.makedev(_SLAVES, index)
        inner = [
            stat
            for stat in self._table.values()
            if stat.terminal not in (0, own) and stat.foreground > 0 and _below(stat.pid, relay, self._table)
        ]
        if not inner:
            return None
        last = max(inner, key=lambda stat: stat.pid)
        number = os.minor(last.terminal)
        modes = _modes_of(f"/dev/pts/{number}")
        if modes is None:
            return None
        if self._inner is None:
            self._inner = ForegroundGroup(self._clock)
        inside = self._inner
        if inside._table is not self._table or inside._group != last.foreground:
            inside._refresh(self._table, last.foreground, self._refreshed)
        return inside._judge(modes, number, prompt)


def _visitor(stat: Stat, terminal: str) -> tuple[ForegroundThread, bytes] | None:
    """Return the main thread of a process, and the line of its call, if that reads a terminal."""
    owner = access.owner(stat.pid)
    if owner is None:
        return None
    with access.reading_as(*owner):
        line = access.read(f"/proc/{stat.pid}/task/{stat.pid}/syscall", 256) or b""
        call = terminal_state.parse(line)
        found = ForegroundThread(stat.pid, stat.pid, call, _things(stat.pid, call, (terminal, terminal)))
    return (found, line) if found.on_terminal else None


def thread_of(pid: int) -> ForegroundThread | None:
    """Return the activity of the main thread of a process without a terminal, or None if it is gone."""
    owner = access.owner(pid)
    if owner is None:
        return None
    with access.reading_as(*owner):
        line = access.read(f"/proc/{pid}/task/{pid}/syscall", 256)
        if line is None:
            return None
        call = terminal_state.parse(line)
        return ForegroundThread(pid, pid, call, _things(pid, call, ("", "")))


def _table(root: int, group: int) -> dict[int, Stat]:
    """Return the processes that the leader of a terminal started, and the orphans of a group, by pid.

    There can be many other processes, which are of no interest.
    """
    found: dict[int, Stat] = {}
    above = {os.getpid(), os.getppid()} - {1}  # the keeper, if there is one, has the orphans
    left = [root, *(pid for each in above for pid in _children(each, 1) if pid != root)]
    for pid in left:
        stat = access.stat(pid)
        if stat is None or (stat.parent in above and pid != root and stat.group != group):
            continue
        found[pid] = stat
        left += (child for child in _children(pid, stat.threads) if child not in found)
    return found


def _children(pid: int, threads: int) -> list[int]:
    tids = [pid] if threads == 1 else access.numbers(f"/proc/{pid}/task")
    data = b" ".join(access.read(f"/proc/{pid}/task/{tid}/children", 64 << 10) or b"" for tid in tids)
    return [int(word) for word in data.split()]


def _relay(threads: list[ForegroundThread]) -> int | None:
    """Return the process that relays what is typed into the terminal to another process, if there is one."""
    for thread in threads:
        if {
            DescriptorKind.MASTER,
            DescriptorKind.TERMINAL,
        } <= thread.things or thread.call.doing is ThreadActivity.CLOSED:
            return thread.pid
    return None


def _below(pid: int, ancestor: int, table: dict[int, Stat]) -> bool:
    for _ in range(len(table)):
        stat = table.get(pid)
        if stat is None:
            return False
        if stat.parent == ancestor:
            return True
        pid = stat.parent
    return False


def _things(pid: int, call: SystemCall, names: tuple[str, str]) -> frozenset[DescriptorKind]:
    return frozenset(_thing(pid, fd, names) for fd in _descriptors(pid, call))


def _thing(pid: int, fd: int, names: tuple[str, str]) -> DescriptorKind:
    path = f"/proc/{pid}/fd/{fd}"
    target = access.link(path)
    found = DescriptorKind.OTHER if target is None else thing(target, names)
    if found is DescriptorKind.SOCKET and target:
        with suppress(OSError):
            if os.getxattr(path, "system.sockprotoname").startswith((b"UNIX", b"NETLINK")):
                return DescriptorKind.SOCKET if _named(pid, target) else DescriptorKind.PLUMBING
    return found


def _named(pid: int, target: str) -> bool:
    """Check whether others can connect to a unix socket, or have: it has a path, see proc_net(5)."""
    inode = descriptor_links.parse(target).inode
    table = socket_tables.unix(access.whole(f"/proc/{pid}/net/unix") or b"")
    return any(one.inode == inode and one.local for one in table)


def _descriptors(pid: int, call: SystemCall) -> list[int]:
    """Return the descriptors that a call is blocked on."""
    args = call.args
    if call.doing is ThreadActivity.READS:
        return [args[0] & 0xFFFFFFFF]
    if call.doing is ThreadActivity.POLLS:
        count = min(args[1], terminal_state.MAX_WATCHED)
        return terminal_state.polled(access.read_at(f"/proc/{pid}/mem", args[0], count * 8) or b"")
    if call.doing is ThreadActivity.SELECTS:
        count = min(args[0] & 0xFFFFFFFF, terminal_state.MAX_WATCHED)
        data = access.read_at(f"/proc/{pid}/mem", args[1], (count + 63) // 64 * 8) if args[1] else b""
        return terminal_state.selected(data or b"", count)
    if call.doing is ThreadActivity.EPOLLS:
        info = access.read(f"/proc/{pid}/fdinfo/{args[0] & 0xFFFFFFFF}", 64 << 10) or b""
        return terminal_state.watched(info)[: terminal_state.MAX_WATCHED]
    return []


def _guessed(pid: int, call: SystemCall) -> SystemCall:
    """Return a poll that continues after a restore, if the call is one: its arguments are still there."""
    address, count = call.args[:2]
    if address > 1 << 16 and 0 < count <= _MAX_GUESSED:
        data = access.read_at(f"/proc/{pid}/mem", address, count * 8) or b""
        entries = list(struct.iter_unpack("<iHH", data))
        if entries and all(-1 <= fd < 1 << 16 and 0 < events < 1 << 14 for fd, events, _ in entries):
            return SystemCall(ThreadActivity.POLLS, call.args)
    return call


def _modes(fd: int) -> InputModes:
    attributes = termios.tcgetattr(fd)
    local = attributes[3]
    return InputModes(
        canonical=bool(local & termios.ICANON),
        echo=bool(local & termios.ECHO),
        signals=bool(local & termios.ISIG),
        translates=bool(attributes[0] & termios.ICRNL),
    )


def _modes_of(path: str) -> InputModes | None:
    """Return the modes of a terminal that a program keeps; the terminal is opened only briefly."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _modes(fd)
    except (OSError, termios.error):
        return None
    finally:
        os.close(fd)


_TIOCGPTN = 0x80045430
"""Request for the number of the slave's device, see ioctl_tty(2)."""
