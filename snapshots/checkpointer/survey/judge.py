"""The judge of all that was seen of a session. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.snapshots.checkpointer.survey import (
    finding,
    judge_descriptors,
    judge_limits,
    judge_processes,
    judge_sockets,
)
from holdfast.snapshots.checkpointer.survey.catalogue import BLOCKS
from holdfast.snapshots.checkpointer.survey.finding import Finding
from holdfast.snapshots.checkpointer.survey.seen import SeenDescriptor, SeenProcess, World

# The supervisor releases these before a capture, and makes new ones after it.
_LET_GO = frozenset({"unix_outside", "unix_waiting", "pidfd_outside", "loopback", "poll_lost"})


@dataclass(frozen=True, slots=True)
class CaptureSize:
    """The most a capture would write, in bytes: resident memory, and files that no longer have a name."""

    memory: int
    deleted: int


def findings(world: World, supervisor: int = 0) -> Iterator[Finding]:
    """Yield every resource with its fate; `own` marks those of the root and of the supervisor.

    `supervisor` is the inner pid of the latter, 0 if it is the root.
    """
    polled: set[tuple[int, ...]] = set()
    adopted = judge_processes.adopted(world)
    for number, one in enumerate(world.processes):
        for found in _of(world, one, polled, adopted):
            if number and one.inner != supervisor:
                yield found
            elif found.kind in _LET_GO and found.fd >= 0:
                yield replace(found, kind="supervisor", own=True)
            else:
                yield replace(found, own=found.verdict != BLOCKS)
    for one in world.outside:
        yield judge_processes.outside(one)
    yield from judge_limits.beyond(world)


def _of(world: World, one: SeenProcess, polled: set[tuple[int, ...]], adopted: set[int]) -> Iterator[Finding]:
    if one.inner in adopted:
        yield judge_processes.in_lost_session(one)
    else:
        yield from judge_processes.process(world, one)
    yield from judge_processes.memory(one)
    lost = {descriptor.number: what for descriptor, what in judge_descriptors.lost(one)}
    for descriptor in one.descriptors:
        if descriptor.link.name == "eventpoll" and descriptor.info is not None and descriptor.info.watched:
            # The same instance in another process: only the first one that has it is judged by its members.
            members = tuple(target.inode for target in descriptor.info.watched)
            if members in polled:
                lost.pop(descriptor.number, None)
            polled.add(members)
        if descriptor.number in lost:
            yield finding.of(one, "poll_lost", lost[descriptor.number], descriptor.number)
        else:
            found = finding.of(one, *_descriptor(world, one, descriptor), descriptor.number)
            yield replace(found, mark=_mark(world, descriptor)) if found.verdict == BLOCKS else found


def _descriptor(world: World, one: SeenProcess, descriptor: SeenDescriptor) -> tuple[str, str]:
    if descriptor.link.kind == "socket":
        return judge_sockets.socket(world, descriptor)
    return judge_descriptors.descriptor(world, one, descriptor)


def _mark(world: World, descriptor: SeenDescriptor) -> str:
    """Tell what a descriptor leads to from what it leads to later: servers and clients reuse numbers."""
    found = world.network.sockets.get(descriptor.link.inode) if descriptor.link.kind == "socket" else None
    next_up = found.waiting[:1] if found is not None else ()
    return f"{descriptor.link.inode} {descriptor.info.pid if descriptor.info is not None else ''} {next_up}"


def size(world: World) -> CaptureSize:
    """Return the most that a capture would write.

    Shared memory is counted once for each process that has touched it, so this is an upper bound.
    """
    deleted: dict[tuple[int, int], int] = {}
    for one in world.processes:
        for descriptor in one.descriptors:
            file = descriptor.file
            if file is not None and not file.links and file.kind == "file" and descriptor.link.kind == "path":
                deleted[file.device, file.inode] = file.bytes
    memory = sum(one.status.anonymous + one.status.shared for one in world.processes)
    return CaptureSize(memory, sum(deleted.values()))
