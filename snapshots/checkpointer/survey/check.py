"""The operation `check`: reports the effect of a capture on a session, without disturbing it.

Nothing is frozen and nothing is traced: it is a sample from outside, valid only for the instant it was taken.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from holdfast.procfs import bounded, walk
from holdfast.snapshots.checkpointer.criu import host_features
from holdfast.snapshots.checkpointer.ground import cgroups, folders, tree
from holdfast.snapshots.checkpointer.layers import keep, tmpfs
from holdfast.snapshots.checkpointer.survey import judge, look
from holdfast.snapshots.checkpointer.survey.catalogue import BLOCKS, SURVIVES
from holdfast.snapshots.checkpointer.survey.judge import Finding
from holdfast.snapshots.checkpointer.survey.seen import World
from holdfast.snapshots.checkpointer.wire.channel import HostChannel
from holdfast.snapshots.checkpointer.wire.requests import CheckRequest

SAMPLES, BETWEEN = 4, 0.01
"""How often what blocks is looked at, and the seconds in between."""
REPORTED_EVERY = 0.25
"""Seconds between two reports of how many processes were looked at; a short survey makes none."""
MAX_FINDINGS = 5000
"""Most findings that survive: blockers are always reported."""


def run(request: CheckRequest, channel: HostChannel) -> None:
    """Answer with the findings. Raises TargetMismatch, OSError."""
    target = request.target
    tree.check_container(target.init_pid, target.container)
    root = tree.find_by_inner_pid(target.init_pid, target.root_pid)
    began = time.monotonic()
    # Many objects are made and all are kept until the answer: there is nothing to collect in this process.
    gc.disable()
    world, found = _seen(request, root, Reports(channel))
    kept = [one for one in found if one.verdict != SURVIVES or request.everything]
    reported = [one for one in kept if one.verdict != SURVIVES] + [
        one for one in kept if one.verdict == SURVIVES
    ][:MAX_FINDINGS]
    size = judge.size(world)
    space = os.statvfs(folders.STATE)
    layer = keep.measure(target.init_pid) if request.everything else keep.LayerSize()
    channel.send(
        "done",
        findings=[one.as_dict() for one in reported],
        left_out=len(kept) - len(reported),
        whole=world.whole,
        processes=len(world.processes),
        descriptors=sum(len(one.descriptors) for one in world.processes),
        memory_bytes=size.memory,
        deleted_bytes=size.deleted,
        tmpfs_bytes=sum(_used(target.init_pid, point) for point in _tmpfs(target.init_pid)),
        changed=asdict(layer),
        free_bytes=space.f_bavail * space.f_frsize,
        seconds=time.monotonic() - began,
        versions=host_features.versions(),
    )


class Reports:
    """Tells the host how many processes were looked at, from time to time."""

    def __init__(self, channel: HostChannel, clock: Callable[[], float] = time.monotonic) -> None:
        self._channel = channel
        self._clock = clock
        self._next = clock() + REPORTED_EVERY

    def __call__(self, done: int, total: int) -> None:
        """Report that `done` of all processes were looked at, if it is time to."""
        if (now := self._clock()) >= self._next:
            self._next = now + REPORTED_EVERY
            self._channel.send("looked", done=done, total=total)


def _seen(request: CheckRequest, root: int, reports: Reports) -> tuple[World, list[Finding]]:
    """Return the findings; blockers must occur in several samples, because the session keeps running.

    A process can accept a connection between the scan of the processes and the scan of the sockets, and a
    busy server always has some that wait, each for an instant.
    """
    init_pid = request.target.init_pid
    sure: set[tuple[str, int, int, str]] | None = None
    for left in reversed(range(SAMPLES)):
        world = look.world(init_pid, root, cgroups.members(init_pid), request.mounts, reports)
        found = list(judge.findings(world, request.supervisor))
        blocking = {one.identity for one in found if one.verdict == BLOCKS}
        sure = blocking if sure is None else sure & blocking
        if not sure:
            break
        if left:
            time.sleep(BETWEEN)
    return world, [one for one in found if one.verdict != BLOCKS or one.identity in (sure or ())]


def _tmpfs(init_pid: int) -> list[str]:
    try:
        return tmpfs.mounts(bounded.read(Path(f"/proc/{init_pid}/mountinfo"), walk.MAX_TEXT))
    except OSError:
        return []


def _used(init_pid: int, point: str) -> int:
    try:
        space = os.statvfs(f"/proc/{init_pid}/root{point}")
    except OSError:
        return 0
    return (space.f_blocks - space.f_bfree) * space.f_frsize
