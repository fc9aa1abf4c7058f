"""The judge of a survey of a session: of its processes, their memory and limits. Pure.

`judge_descriptors` judges what they have open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.base.value_classes import as_table
from holdfast.snapshots.checkpointer.record import ancestry, judged_limits
from holdfast.snapshots.checkpointer.survey import judge_descriptors
from holdfast.snapshots.checkpointer.survey.catalogue import BLOCKS, CATALOGUE
from holdfast.snapshots.checkpointer.survey.judge_descriptors import GHOST_LIMIT
from holdfast.snapshots.checkpointer.survey.seen import Mapped, SeenDescriptor, SeenProcess, World

# The supervisor releases these before a capture, and makes new ones after it.
_LET_GO = frozenset({"unix_outside", "unix_waiting", "pidfd_outside", "loopback", "poll_lost"})
NEEDED = 2
"""Descriptors that a capture opens in a process for a moment."""
_SIGTRAP = 1 << 4
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time_for_children", "user", "uts")


@dataclass(frozen=True, slots=True)
class Finding:
    """A resource and its fate in a capture; `kind` is a key of the catalogue.

    `pid` is the process's own in the session, `fd` is -1 if it is not a descriptor. `also` are inner pids
    whose end would clear it as well. `own`: it belongs to the supervisor. `mark` distinguishes it from a
    later one of the same kind in its place; it is not reported.
    """

    kind: str
    pid: int
    command: str
    what: str
    fd: int = -1
    also: tuple[int, ...] = ()
    own: bool = False
    mark: str = ""

    def as_dict(self) -> dict[str, object]:
        """Return the finding for the host."""
        return as_table(self, "mark")

    @property
    def identity(self) -> tuple[str, int, int, str]:
        """The identity that it keeps an instant later, and shares with no other finding."""
        return self.kind, self.pid, self.fd, self.mark

    @property
    def verdict(self) -> str:
        """`survives`, `reset` or `blocks`."""
        return CATALOGUE[self.kind].verdict


def _finding(process: SeenProcess, kind: str, what: str, fd: int = -1, also: tuple[int, ...] = ()) -> Finding:
    """Return a finding about a process or one of its descriptors."""
    status = process.status
    command = process.command or f"[{status.name}]"
    return Finding(kind, process.inner, command[:200], what[:300], fd, also)


@dataclass(frozen=True, slots=True)
class CaptureSize:
    """The most a capture would write, in bytes: resident memory, and files that no longer have a name."""

    memory: int
    deleted: int


def findings(world: World, supervisor: int = 0) -> Iterator[Finding]:
    """Yield every resource with its fate; `own` marks the root's and the supervisor's.

    `supervisor` is the inner pid of the latter, 0 if it is the root.
    """
    polled: set[tuple[int, ...]] = set()
    adopted = _adopted(world)
    for number, one in enumerate(world.processes):
        for found in _of(world, one, polled, adopted):
            if number and one.inner != supervisor:
                yield found
            elif found.kind in _LET_GO and found.fd >= 0:
                yield replace(found, kind="supervisor", own=True)
            else:
                yield replace(found, own=found.verdict != BLOCKS)
    for one in world.outside:
        yield _outside(one)
    yield from _beyond_limits(world)


def _of(world: World, one: SeenProcess, polled: set[tuple[int, ...]], adopted: set[int]) -> Iterator[Finding]:
    if one.inner in adopted:
        yield _in_lost_session(one)
    else:
        yield from _process(world, one)
    yield from _memory(one)
    lost = {descriptor.number: what for descriptor, what in judge_descriptors.lost(one)}
    for descriptor in one.descriptors:
        if descriptor.link.name == "eventpoll" and descriptor.info is not None and descriptor.info.watched:
            # The same instance in another process: only the first one that has it is judged by its members.
            members = tuple(target.inode for target in descriptor.info.watched)
            if members in polled:
                lost.pop(descriptor.number, None)
            polled.add(members)
        if descriptor.number in lost:
            yield _finding(one, "poll_lost", lost[descriptor.number], descriptor.number)
        else:
            found = _finding(one, *judge_descriptors.descriptor(world, one, descriptor), descriptor.number)
            yield replace(found, mark=_mark(world, descriptor)) if found.verdict == BLOCKS else found


def _mark(world: World, descriptor: SeenDescriptor) -> str:
    """Distinguish a descriptor's targets over time: servers and clients reuse numbers."""
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


def _beyond_limits(world: World) -> Iterator[Finding]:
    """Yield a finding for each exceeded limit, on the process with the largest share."""
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
            yield _finding(largest, "crowd", f"more than {most} {what} in total")


def _groups(one: SeenProcess) -> int:
    """Return the number of groups in all threads, assuming that each has as many as the first thread."""
    return len(one.status.groups) * max(1, one.status.threads)


def _names(one: SeenProcess) -> int:
    return sum(len(descriptor.link.name) for descriptor in one.descriptors if descriptor.link.kind == "path")


def _process(world: World, one: SeenProcess) -> Iterator[Finding]:
    """Judge a process itself."""
    status = one.status
    what = f"user {status.uids.effective}, {status.threads} thread{'s' if status.threads != 1 else ''}"
    if status.state in "ZX":
        kind = "headless" if status.threads > 1 else "zombie"
        yield _finding(one, kind, "main thread ended" if kind == "headless" else "ended")
        return
    if status.tracer:
        tracer = next((other for other in world.processes if other.pid == status.tracer), None)
        inner = world.pids.get(status.tracer, 0)
        by = f"{tracer.command or tracer.status.name} (pid {inner})" if tracer else "a process outside"
        yield _finding(one, "traced", f"traced by {by}", also=(inner,) if inner else ())
    elif status.pending & _SIGTRAP:
        yield _finding(one, "trap", "SIGTRAP pending")
    elif one.stuck:
        yield _finding(one, "stuck", f"thread {one.stuck} in an uninterruptible sleep")
    if one.is_deep:
        yield _finding(one, "deep", "path longer than 4095 bytes")
    held = world.open.get(one.pid, 0)
    if one.most_open and held + NEEDED > one.most_open:
        yield _finding(one, "no_descriptor", f"{held} of {one.most_open} descriptors")
    if one.label:
        yield _finding(one, "label", f"security label {one.label[:100]!r}")
    inner_kinds = [
        name
        for name in _NAMESPACES
        if name in one.namespaces and one.namespaces[name] != world.root_namespaces.get(name)
    ]
    if inner_kinds:
        yield _finding(one, "inner_namespace", f"{', '.join(inner_kinds)} namespace")
    elif not (status.tracer or one.stuck or one.label or status.pending & _SIGTRAP):
        kind = "stopped" if status.state == "T" else "other_user" if status.setuid else "process"
        yield _finding(one, kind, what)


def _adopted(world: World) -> set[int]:
    """Return the inner pids of processes that cannot be restored in their sessions."""
    return ancestry.lost(
        ancestry.Relatives(
            one.inner,
            world.pids.get(one.status.parent, 0),
            _session(one),
            one.status.inner_groups[-1] if one.status.inner_groups else 0,
            one.status.state in "ZX",
        )
        for one in world.processes
    )


def _in_lost_session(one: SeenProcess) -> Finding:
    """Return the finding for such a process."""
    return _finding(one, "adopted", f"of session {_session(one)}")


def _session(one: SeenProcess) -> int:
    return one.status.inner_sessions[-1] if one.status.inner_sessions else 0


def _outside(one: SeenProcess) -> Finding:
    """Return the finding for a process of the container that is not in the tree.

    A process without a number in the container's PID namespace was put into its control groups by the host:
    a restore's, which serves memory.
    """
    return _finding(one, "outside" if one.inner else "arriving", f"user {one.status.uids.effective}")


def _memory(one: SeenProcess) -> Iterator[Finding]:
    """Judge notable memory; yield one finding for all mappings that are alike."""
    seen: set[tuple[str, str]] = set()
    for mapped in one.memory:
        kind, what = _mapping(mapped)
        if kind and (kind, what) not in seen:
            seen.add((kind, what))
            yield _finding(one, kind, what)


def _mapping(mapped: Mapped) -> tuple[str, str]:
    path = mapped.memory.path
    if path.startswith("anon_inode:"):
        return "device_memory", path.removeprefix("anon_inode:").strip("[]")
    if path.startswith("socket:"):
        return "device_memory", "packet ring of a socket"
    if path.startswith(("/SYSV", "/memfd:")):
        return "shared_memory", path
    if path.startswith("/dev/shm/"):  # noqa: S108 - a path of the session
        return "shared_memory", path
    if path == "/dev/zero":
        return ("shared_memory", "between processes") if mapped.memory.deleted else ("", "")
    if path.startswith("/dev/"):
        return "device_memory", path
    if mapped.bytes > GHOST_LIMIT:
        return "deleted_file_large", f"{path}, mapped ({mapped.bytes >> 20} MiB)"
    return "", ""
