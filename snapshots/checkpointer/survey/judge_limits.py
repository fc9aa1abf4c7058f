"""Limits on what a restore checks, compared with what a session has. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.snapshots.checkpointer.record import judged_limits
from holdfast.snapshots.checkpointer.survey import finding
from holdfast.snapshots.checkpointer.survey.finding import Finding
from holdfast.snapshots.checkpointer.survey.seen import SeenProcess, World


def beyond(world: World) -> Iterator[Finding]:
    """Yield a finding for each limit that is exceeded, on the process that has the most of it."""
    for counted, most, what in (
        ({one.pid: 1 for one in world.processes}, judged_limits.MAX_PROCESSES, "processes"),
        (world.open, judged_limits.MAX_DESCRIPTORS, "descriptors"),
        ({one.pid: one.status.threads for one in world.processes}, judged_limits.MAX_THREADS, "threads"),
        ({one.pid: _groups(one) for one in world.processes}, judged_limits.MAX_GROUPS, "groups of threads"),
        ({one.pid: _names(one) for one in world.processes}, judged_limits.MAX_NAMES, "characters of names"),
    ):
        total = sum(counted.values())
        if total > most:
            # The supervisor cannot be closed or ended: name another process if there is one.
            largest = max(world.processes[1:] or world.processes, key=lambda one: counted.get(one.pid, 0))
            yield finding.of(largest, "crowd", f"more than {most} {what} in all")


def _groups(one: SeenProcess) -> int:
    """Return the number of groups in all threads, taking each to have as many as the first thread."""
    return len(one.status.groups) * max(1, one.status.threads)


def _names(one: SeenProcess) -> int:
    return sum(len(descriptor.link.name) for descriptor in one.descriptors if descriptor.link.kind == "path")
