"""The start of CRIU on a frozen session, whatever the session does to prevent it.

CRIU has to be in the session's PID namespace, where root can signal it until the session is completely
stopped. So it is started up to the point before it enters anything of the session, then the session is
frozen, and only then it continues. If CRIU was stopped in between, it is continued; if it was killed, it is
started again, this time with the session frozen first, which takes longer.

A session that has seen CRIU can also have the kernel signal it later, when all is frozen: for an access to
a folder, say (fcntl(2), F_SETOWN, F_SETSIG and F_NOTIFY). So when all is frozen, another process takes its
place, which nothing in the session can have named.

The instant of the freeze is chosen. A task that waits for a child of vfork(2) to start its program or to end
cannot be stopped for a tracer, and in a frozen container its child does not get there either. Programs are
often started that way (`posix_spawn(3)`, Python's `subprocess`), in less than a millisecond each.

Nor can CRIU read a connection that no server has accepted yet: the kernel keeps it in the queue of its
listener, where no descriptor leads to it. A running server accepts it within microseconds. Over TCP, a client
finds it closed in a copy where there is one all the same. Over a unix socket, one that carries data, or whose
client is gone, cannot be captured at all: where a server accepts nothing the capture is refused, and where it
only has much to do an instant is looked for.

A task that waits for a disk stops when it has its data. Where that takes seconds, the others do not stand
still for it: they run on until the data is there.
"""

from __future__ import annotations

import os
import platform
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from holdfast.procfs import walk
from holdfast.procfs.socket_tables import SocketRow
from holdfast.snapshots.checkpointer.criu import criu
from holdfast.snapshots.checkpointer.ground import diag, tree
from holdfast.snapshots.checkpointer.ground.freezer import Freezer, NotFrozen, NotStopping
from holdfast.snapshots.checkpointer.ground.separate_process import Process

# A closed socket has no descriptor either, but none of these states: it has said its end.
_OPEN_STATES = ("established", "close_wait")
_LATE = "connections to a unix socket always wait to be accepted"
SOON = 1.0
"""Seconds in which CRIU is ready, unless the session prevents it; it takes some 20 ms."""
POLL = 0.02
LIMIT = 20.0
"""Seconds for the same when nothing can prevent it."""

PAUSES = tuple(0.001 * 1.3**number for number in range(16)) * 3
"""Seconds for which a session runs on in which a child of vfork was being born, each time: 0.7 s in all.

Of no one length, so that they do not keep step with a program that has such children all the time.
"""
ACCEPTING = 16
"""The number of these pauses made for TCP connections that no server has accepted yet: 0.2 s.

A server that never accepts does not prevent a capture: then the session is frozen with them. Those of unix
sockets cannot be captured (`blocked_listeners`), and have all of the pauses.
"""
QUIET, LOOK_AGAIN = 0.5, 0.001
"""Seconds in which a running session is looked at for an instant without such connections, and in between."""
LONGEST = 4.0
"""Seconds for all of that on a busy machine: a supervisor waits for ten until a capture has begun."""

Start = Callable[[Mapping[str, str], tuple[int, ...]], criu.Running]
"""A function that starts CRIU with these variables for the guard and these open descriptors."""
PROC = Path("/proc")
CLONE_VFORK = 0x4000
# Numbers of vfork, clone and clone3 (asm/unistd.h); 0: there is none. Those of 32 bits are not looked at.
_VFORK_CALLS = {"x86_64": (58, 56, 435), "aarch64": (0, 220, 435)}


class Unaccepted(NamedTuple):
    """The pending connections at an instant: whether TCP has any, and unix listeners that block a capture."""

    over_tcp: bool = False
    blocked: tuple[SocketRow, ...] = ()


def look_for_unaccepted(process: int) -> Unaccepted:
    """Look into the network namespace of a process."""
    sockets = diag.listed(process)
    return Unaccepted(bool(unaccepted_among(sockets)), tuple(blocked_listeners(sockets)))


def unaccepted_among(sockets: Iterable[SocketRow]) -> list[SocketRow]:
    """Return the connections over TCP whose client is also among the sockets. Pure."""
    connected = [one for one in sockets if one.remote_end and one.protocol.startswith("tcp")]
    clients = {(one.local_end, one.remote_end) for one in connected if one.inode}
    return [
        one
        for one in connected
        if not one.inode and one.state in _OPEN_STATES and (one.remote_end, one.local_end) in clients
    ]


def blocked_listeners(sockets: Sequence[SocketRow]) -> list[SocketRow]:
    """Return the unix listeners with connections that carry data or whose client has left. Pure."""
    carrying = {one.inode for one in sockets if one.send_queue and one.protocol.startswith("unix")}
    return [one for one in sockets if any(not inode or inode in carrying for inode in one.waiting)]


def describe_listeners(listeners: Iterable[SocketRow], pids: Iterable[int]) -> str:
    """Describe the listener that blocks a capture, and its owner, in a log line; `pids` are the host's."""
    first = next(iter(listeners))
    for pid in pids:
        for number in walk.descriptors(pid):
            link = walk.link_of(pid, number)
            if link is not None and link.kind == "socket" and link.inode == first.inode:
                return f"{_LATE} ({first.local_end}) for fd={number} on pid {tree.inner_pid_of(pid)}"
    return f"{_LATE} ({first.local_end})"


class Outsiders(Exception):
    """The container has processes outside the session's tree."""


class Freezes(Protocol):
    """The part of a freezer needed here."""

    def freeze(self) -> None:
        """Stop all tasks."""

    def thaw(self) -> None:
        """Resume them."""

    def members(self) -> tuple[int, ...]:
        """Return the processes."""


def freeze(freezer: Freezes, look: Callable[[], Unaccepted]) -> float:
    """Freeze a session when no task in it waits for a vfork child, which CRIU could not seize.

    Returns the instant of the freeze (monotonic, seconds). `look` returns the connections that their
    servers have not accepted. Those are waited for, but not for long.

    Raises:
        NotFrozen: it cannot be frozen, or always has state that cannot be captured; then it runs.
    """
    born, waits = 0, Unaccepted()
    end = time.monotonic() + LONGEST
    for tried, pause in enumerate((*PAUSES, 0.0)):
        began = time.monotonic()
        try:
            freezer.freeze()
        except NotStopping as error:
            asleep = _await_awake(freezer)
            if began < end and tried < len(PAUSES):
                continue
            named = f" on pid {tree.inner_pid_of(asleep)}" if asleep else ""
            raise NotFrozen(f"{error}{named}") from error
        born = next(iter(waiting_for_vfork(freezer.members())), 0)
        waits = Unaccepted() if born else look()
        if not born and not waits.blocked and (tried >= ACCEPTING or began > end or not waits.over_tcp):
            return began
        freezer.thaw()
        if began > end:
            break
        if waits.blocked:
            _await_quiet(look)
        else:
            time.sleep(pause)
    if waits.blocked:
        raise NotFrozen(describe_listeners(waits.blocked, freezer.members()))
    raise NotFrozen(f"pid {tree.inner_pid_of(born)} waits for a vfork child, and does not stop")


def _await_awake(freezer: Freezes) -> int:
    """Wait until no task is in an uninterruptible sleep; return a process that remains in one, else 0."""
    end = time.monotonic() + QUIET
    while asleep := next((pid for pid in freezer.members() if "D" in tree.thread_states(pid)), 0):
        if time.monotonic() > end:
            break
        time.sleep(LOOK_AGAIN)
    return asleep


def _await_quiet(look: Callable[[], Unaccepted]) -> None:
    """Wait for an instant that is worth a freeze: a busy server has few of them, and none while frozen."""
    end = time.monotonic() + QUIET
    while look().blocked and time.monotonic() < end:
        time.sleep(LOOK_AGAIN)


def begin(
    freezer: Freezer, start: Start, check: Callable[[], None], look: Callable[[], Unaccepted]
) -> tuple[criu.Running, float]:
    """Start CRIU, and freeze the session; return the instant (monotonic, seconds) at which it was frozen.

    `check` is called when the session is frozen and before CRIU enters it, and can raise; `look` is
    `freeze`'s.

    Raises:
        criu.Killed: it cannot be started.
        NotFrozen: the session cannot be frozen.
    """
    for early in (False, True):
        frozen_at = freeze(freezer, look) if early else 0.0
        running = _start(freezer, start)
        try:
            ready = not early and _is_ready(running, SOON)
            if not early:
                frozen_at = freeze(freezer, look)
            if (ready or _is_ready(running, LIMIT)) and _is_alive(running):
                check()
                running.follow()
                running.answer(yes=True)
                return running, frozen_at
        except BaseException:
            _end(running)
            raise
        _end(running)
        freezer.thaw()
    raise criu.Killed(abs(running.process.wait()))


def is_stopped(process: Process) -> bool:
    """Return whether a signal has stopped CRIU."""
    return tree.thread_states(process.pid) == ["T"]


def keep_going(process: Process) -> None:
    """Continue CRIU if it was stopped."""
    if is_stopped(process):
        process.send_signal(signal.SIGCONT)


def check_alone(freezer: Freezer, init_pid: int, *roots: int) -> None:
    """Raise Outsiders if a container has other processes than its first one and the trees below `roots`."""
    known = {init_pid, *(pid for root in roots for pid in tree.tree(root))}
    outside = [pid for pid in freezer.members() if pid not in known and not tree.has_ended(pid)]
    if outside:
        names = ", ".join(f"pid {tree.inner_pid_of(pid)} ({tree.name_of(pid)})" for pid in outside[:3])
        raise Outsiders(f"a process outside of the session's tree: {names}")


def _start(freezer: Freezer, start: Start) -> criu.Running:
    threads, switch, word = freezer.handles()
    try:
        return start({"HOLDFAST_FREEZER": f"{threads} {switch} {word}"}, (threads, switch))
    finally:
        os.close(threads)
        os.close(switch)


def _is_ready(running: criu.Running, limit: float) -> bool:
    """Wait for the guard's notice that CRIU can begin."""
    deadline = time.monotonic() + limit
    while not select.select([running.control], [], [], POLL)[0]:
        if time.monotonic() > deadline:
            return False
        keep_going(running.process)
    return running.question() == "ready"


def _is_alive(running: criu.Running) -> bool:
    """Return whether CRIU, which is ready, has survived every signal sent to it so far."""
    running.ask_again()
    return _is_ready(running, LIMIT)


def _end(running: criu.Running) -> None:
    running.close()
    running.process.kill()
    running.process.wait()


def waiting_for_vfork(pids: Iterable[int], calls: tuple[int, int, int] | None = None) -> Iterator[int]:
    """Return those of the given processes that have a thread waiting for such a child.

    `calls` are the numbers of the calls on this machine; on an unknown one, none is found.
    """
    numbers = calls or _VFORK_CALLS.get(platform.machine())
    if numbers is None:
        return
    for pid in pids:
        if any(waits_for_vfork(call, numbers) for call in _calls_of(pid)):
            yield pid


def waits_for_vfork(call: str, calls: tuple[int, int, int]) -> bool:
    """Check by its /proc file `syscall` whether a task waits for a child of vfork. Pure."""
    number, _, rest = call.partition(" ")
    vfork, clone, clone3 = calls
    if not number.isdigit() or not int(number):
        return False
    if int(number) == clone:
        flags = rest.partition(" ")[0]
        with suppress(ValueError):
            return bool(int(flags, 16) & CLONE_VFORK)
        return False
    # The flags of clone3 are in memory; without that one it does not wait for anything.
    return int(number) in (vfork, clone3)


def _calls_of(pid: int) -> Iterator[str]:
    with suppress(OSError), os.scandir(PROC / str(pid) / "task") as threads:
        for thread in threads:
            with suppress(OSError):
                yield Path(thread.path, "syscall").read_text(encoding="ascii", errors="replace")
