"""The operation `end`: ends processes that obstruct a capture, on a person's request.

Each is named by its pid in the session and ends with its descendants; SIGKILL, since what is to be captured
next must not depend on how they take a request. Only processes of the session's container can be named, and
neither its first process nor the supervisor and its parent.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress

from holdfast.procfs import walk
from holdfast.snapshots.checkpointer.ground import cgroups, tree
from holdfast.snapshots.checkpointer.wire.channel import HostChannel
from holdfast.snapshots.checkpointer.wire.requests import EndRequest

PATIENCE = 10.0  # seconds
POLL = 0.005

Space = dict[str, int]
"""The PID namespace of the session, as `walk.namespaces_of` has it."""


def run(request: EndRequest, channel: HostChannel) -> None:
    """End the processes and wait for them. Raises TargetMismatch, OSError."""
    target = request.target
    tree.check_container(target.init_pid, target.container)
    root = tree.find_by_inner_pid(target.init_pid, target.root_pid)
    top = walk.status_of(root)
    depth = len(top.inner_pids) if top is not None else 0
    spared: tuple[int, ...] = (target.init_pid, root)
    space = walk.namespaces_of(target.init_pid, ("pid",))
    inside = _numbered(dict.fromkeys((*walk.tree(root).pids, *cgroups.members(target.init_pid))), depth)
    spared += tuple(pid for pid, number in inside.items() if number == request.supervisor)
    named = [pid for pid, number in inside.items() if number in request.pids and pid not in spared]
    ended: dict[int, int] = {}
    deadline = time.monotonic() + PATIENCE
    # Listed again in each turn: what is to end may start more.
    while left := _below(named, depth, space, spared) | {
        pid: number for pid, number in ended.items() if _lives(pid, number, depth, space)
    }:
        ended |= left
        if time.monotonic() > deadline:
            raise OSError(f"process {next(iter(left.values()))} does not end")
        for pid, number in left.items():
            _kill(pid, number, depth, space)
        time.sleep(POLL)
    channel.send("done", ended=sorted(set(ended.values())))


def _numbered(pids: Iterable[int], depth: int) -> dict[int, int]:
    """Their numbers in the session, by those here. Vanished ones have none."""
    return {pid: number for pid in pids if (number := _inner(pid, depth))}


def _below(named: list[int], depth: int, space: Space, spared: tuple[int, ...]) -> dict[int, int]:
    """Return the named processes and all their descendants that have not ended."""
    found = _numbered((pid for top in named for pid in walk.tree(top).pids if pid not in spared), depth)
    return {pid: number for pid, number in found.items() if _lives(pid, number, depth, space)}


def _lives(pid: int, number: int, depth: int, space: Space) -> bool:
    """Check that it is still that process, and has not ended. A zombie with living threads has not."""
    status = walk.status_of(pid)
    if status is None or status.pid_at(depth) != number or walk.namespaces_of(pid, ("pid",)) != space:
        return False
    return status.state not in "ZX" or status.threads > 1


def _inner(pid: int, depth: int) -> int:
    status = walk.status_of(pid)
    return status.pid_at(depth) if status is not None else 0


def _kill(pid: int, number: int, depth: int, space: Space) -> None:
    """Kill by descriptor: the pid can now belong to a different process, even of the host."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            if number and _lives(pid, number, depth, space):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)
