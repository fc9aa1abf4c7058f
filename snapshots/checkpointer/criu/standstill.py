"""The start of CRIU on a frozen session, whatever the session does to prevent it.

CRIU has to be in the session's PID namespace, where root may signal it until nothing of the session runs any
more. So it is started up to the point before it enters anything of the session, then the session is frozen,
and only then it continues. If CRIU was stopped meanwhile, it is continued; if it was killed, it is started
again, this time with the session frozen first, which takes longer.

A session that has seen CRIU can also have the kernel signal it later, when all is frozen: for an access to
a folder, say (fcntl(2), F_SETOWN, F_SETSIG and F_NOTIFY). So when all is frozen, another process takes its
place, which nothing in the session can have named.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from holdfast.snapshots.checkpointer.criu import criu, unaccepted, unborn
from holdfast.snapshots.checkpointer.criu.unaccepted import Unaccepted
from holdfast.snapshots.checkpointer.ground import tree
from holdfast.snapshots.checkpointer.ground.child import Process
from holdfast.snapshots.checkpointer.ground.freezer import Freezer, NotFrozen

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
sockets cannot be captured (`unaccepted`), and have all of the pauses.
"""
QUIET, LOOK_AGAIN = 0.5, 0.001
"""Seconds in which a running session is looked at for an instant without such connections, and in between."""
LONGEST = 4.0
"""Seconds for all of that on a busy machine: a supervisor waits for ten until a capture has begun."""

Start = Callable[[Mapping[str, str], tuple[int, ...]], criu.Running]
"""A function that starts CRIU with these variables for the guard and these open descriptors."""


class Outsiders(Exception):
    """There are processes in the container that are not of the session's tree."""


class Freezes(Protocol):
    """The part of a freezer needed here."""

    def freeze(self) -> None:
        """Stop all tasks."""

    def thaw(self) -> None:
        """Resume them."""

    def members(self) -> tuple[int, ...]:
        """Return the processes."""


def freeze(freezer: Freezes, look: Callable[[], Unaccepted]) -> float:
    """Freeze a session when nothing in it waits for a child of vfork, which CRIU could not seize.

    Returns the instant of the freeze (monotonic, seconds). `look` says which connections their servers have
    not accepted. Those are waited for, but not for long.

    Raises:
        NotFrozen: it cannot be frozen, or there always is what cannot be captured; then it runs.
    """
    born, waits = 0, Unaccepted()
    end = time.monotonic() + LONGEST
    for tried, pause in enumerate((*PAUSES, 0.0)):
        began = time.monotonic()
        freezer.freeze()
        born = next(iter(unborn.waiting(freezer.members())), 0)
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
        raise NotFrozen(unaccepted.described(waits.blocked, freezer.members()))
    raise NotFrozen(f"pid {tree.inner_pid_of(born)} waits for a child of vfork, and does not stop")


def _await_quiet(look: Callable[[], Unaccepted]) -> None:
    """Wait for an instant that is worth a freeze: a busy server has few of them, and none while frozen."""
    end = time.monotonic() + QUIET
    while look().blocked and time.monotonic() < end:
        time.sleep(LOOK_AGAIN)


def begin(
    freezer: Freezer, start: Start, check: Callable[[], None], look: Callable[[], Unaccepted]
) -> tuple[criu.Running, float]:
    """Start CRIU, and freeze the session; return the instant (monotonic, seconds) at which it was frozen.

    `check` is called when the session is frozen and before CRIU enters it, and may raise; `look` is that
    of `freeze`.

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
