"""The operation `end`: ends processes that are in the way of a capture, because a person said so.

Each is named by its pid in the session and ends with its descendants; SIGKILL, since what is to be captured
next must not depend on how they take a request. Only processes of the session's container can be named, and
neither its first process nor the supervisor.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from holdfast.snapshots.checkpointer import cgroups, tree
from holdfast.snapshots.checkpointer.channel import Channel
from holdfast.snapshots.checkpointer.proc import walk
from holdfast.snapshots.checkpointer.requests import End

PATIENCE = 10.0  # seconds
POLL = 0.005


def run(request: End, channel: Channel) -> None:
    """End them and wait until they have. Raises TargetMismatch, OSError."""
    target = request.target
    tree.check_container(target.init_pid, target.container)
    root = tree.find_by_inner_pid(target.init_pid, target.root_pid)
    top = walk.status_of(root)
    depth = len(top.inner_pids) if top is not None else 0
    spared = (target.init_pid, root)
    inside = dict.fromkeys((*walk.tree(root).pids, *cgroups.members(target.init_pid)))
    inner = {pid: _inner(pid, depth) for pid in inside if pid not in spared}
    named = [pid for pid, number in inner.items() if number in request.pids]
    ended = {pid: inner.get(pid, 0) for top in named for pid in walk.tree(top).pids if pid not in spared}
    deadline = time.monotonic() + PATIENCE
    while left := [pid for pid in ended if _lives(pid)]:
        if time.monotonic() > deadline:
            raise OSError(f"process {ended[left[0]]} does not end")
        for pid in left:
            _kill(pid, ended[pid], depth)
        time.sleep(POLL)
    channel.send("done", ended=sorted(set(ended.values())))


def _lives(pid: int) -> bool:
    """A zombie with living threads is not over yet."""
    told = walk.status_of(pid)
    return told is not None and (told.state not in "ZX" or told.threads > 1)


def _inner(pid: int, depth: int) -> int:
    told = walk.status_of(pid)
    return told.pid_at(depth) if told is not None else 0


def _kill(pid: int, inner: int, depth: int) -> None:
    """By descriptor: a number alone may be another process by now."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            if _inner(pid, depth) == inner:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)
