"""The fate of processes and of their memory. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.snapshots.checkpointer.record import ancestry
from holdfast.snapshots.checkpointer.survey import finding
from holdfast.snapshots.checkpointer.survey.finding import Finding
from holdfast.snapshots.checkpointer.survey.seen import Mapped, SeenProcess, World

GHOST_LIMIT = 256 << 20
"""Bytes of a deleted file that CRIU is configured to keep at most."""
NEEDED = 2
"""Descriptors that a capture opens in a process for a moment."""
_SIGTRAP = 1 << 4
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time_for_children", "user", "uts")


def process(world: World, one: SeenProcess) -> Iterator[Finding]:
    """Judge a process itself."""
    status = one.status
    what = f"user {status.uids.effective}, {status.threads} thread{'s' if status.threads != 1 else ''}"
    if status.state in "ZX":
        kind = "headless" if status.threads > 1 else "zombie"
        yield finding.of(one, kind, "main thread ended" if kind == "headless" else "ended")
        return
    if status.tracer:
        tracer = next((other for other in world.processes if other.pid == status.tracer), None)
        inner = world.pids.get(status.tracer, 0)
        by = f"{tracer.command or tracer.status.name} (pid {inner})" if tracer else "a process outside"
        yield finding.of(one, "traced", f"traced by {by}", also=(inner,) if inner else ())
    elif status.pending & _SIGTRAP:
        yield finding.of(one, "trap", "SIGTRAP pending")
    elif one.stuck:
        yield finding.of(one, "stuck", f"thread {one.stuck} in an uninterruptible sleep")
    if one.is_deep:
        yield finding.of(one, "deep", "path longer than 4095 bytes")
    held = world.open.get(one.pid, 0)
    if one.most_open and held + NEEDED > one.most_open:
        yield finding.of(one, "no_descriptor", f"{held} of {one.most_open} descriptors")
    if one.label:
        yield finding.of(one, "label", f"security label {one.label[:100]!r}")
    inner_kinds = [
        name
        for name in _NAMESPACES
        if name in one.namespaces and one.namespaces[name] != world.root_namespaces.get(name)
    ]
    if inner_kinds:
        yield finding.of(one, "inner_namespace", f"{', '.join(inner_kinds)} namespace")
    elif not (status.tracer or one.stuck or one.label or status.pending & _SIGTRAP):
        kind = "stopped" if status.state == "T" else "other_user" if status.setuid else "process"
        yield finding.of(one, kind, what)


def adopted(world: World) -> set[int]:
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


def in_lost_session(one: SeenProcess) -> Finding:
    """Return the finding for such a process."""
    return finding.of(one, "adopted", f"of session {_session(one)}")


def _session(one: SeenProcess) -> int:
    return one.status.inner_sessions[-1] if one.status.inner_sessions else 0


def outside(one: SeenProcess) -> Finding:
    """Return the finding for a process of the container that is not in the tree.

    One that has no number in the container's PID namespace was put into its control groups by the host: that
    of a restore, which serves memory.
    """
    return finding.of(one, "outside" if one.inner else "arriving", f"user {one.status.uids.effective}")


def memory(one: SeenProcess) -> Iterator[Finding]:
    """Judge notable memory; yield one finding for all mappings that are alike."""
    seen: set[tuple[str, str]] = set()
    for mapped in one.memory:
        kind, what = _memory(mapped)
        if kind and (kind, what) not in seen:
            seen.add((kind, what))
            yield finding.of(one, kind, what)


def _memory(mapped: Mapped) -> tuple[str, str]:
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
