"""Requests of images that no session can make: files of kinds and in places that lead out of it. Pure.

CRIU opens what they name with privileges, inside the session's mounts but with its own entries below /proc,
through which other mounts can be reached. Names that kernels give to open files never lead there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, Protocol

from holdfast.snapshots.checkpointer.record import ImageMessages, image_inventory, special_files, text

MOST = 20
"""Sentences; what comes after them does not matter."""
_KINDS = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14, 17, 18, 20})
"""fd_types of CRIU's fdinfo.proto that a session can have: nothing external, no tunnels, no fanotify, which
gives who has it descriptors of what others open.

A namespace is opened again as that of a restored process, and those are all in the session's own.
"""
_TERMINALS = frozenset({1, 4})
"""tty_info.proto: pseudo terminals, and the one that controls a process."""
_PLUGIN = 1 << 27
"""Of a mapping: made by a plugin (CRIU's image.h, VMA_EXT_PLUGIN)."""
_SCHEDULERS = frozenset({0, 3, 5})
"""SCHED_OTHER, SCHED_BATCH, SCHED_IDLE (sched(7)); others need a capability that no session has."""
_LIMITS = {7: 65536, 13: 0, 14: 0}
"""By number (getrlimit(2)) the highest a session can have: open files, nice, real-time priority.

The last two let a program run before others without a capability. What else has a limit is memory, which is
counted, or processes, which are limited by the container."""
_ALARMS = frozenset({8, 9})
"""CLOCK_REALTIME_ALARM and CLOCK_BOOTTIME_ALARM: they need CAP_WAKE_ALARM (timer_create(2))."""
_FILTER_FLAGS = 0x7
"""SECCOMP_FILTER_FLAG_TSYNC, LOG and SPEC_ALLOW (seccomp(2)): no listener that answers for the kernel."""
_ZOMBIE = 2
# The kernel forgets these once a file is open (open(2)); CRIU would open it with them.
_ONCE = os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_NOCTTY
_PROFILES = frozenset({"", "unconfined", "docker-default", "docker-default (enforce)"})
# What programs read of each other below /proc/PID; nothing of it leads anywhere. Of a folder of links the
# list may be open: who follows one by it is asked for permission then.
_NAMES = (
    "cgroup children cmdline comm environ fd fdinfo io limits loginuid maps mountinfo mounts mountstats net "
    "oom_score oom_score_adj personality sched schedstat sessionid smaps smaps_rollup stat statm status "
    "syscall task wchan"
)
_READABLE = frozenset(_NAMES.split())
_WITH_FILES = frozenset({"fdinfo", "net"})
_OF_PROCESS = re.compile(r"/proc/(?:\d+|self|thread-self)(?:/task/\d+)?(?:/([^/]+))?(/.*)?")


class NumberedImages(ImageMessages, Protocol):
    """The images to read; see `source.ImageFolder`."""

    def numbered(self, kind: str) -> list[str]:
        """Return the names of all images of a kind that can occur more than once."""


def strange(images: NumberedImages, *, foreign: bool = False) -> list[str]:
    """Return what cannot be of a session, in sentences without their subject; at most MOST.

    `foreign` images were captured on another machine, whose disks differ from this one's.

    Raises:
        Unreadable: they are not images of CRIU.
    """
    found: list[str] = []
    for entry in _all(images, foreign=foreign):
        if entry not in found:
            found.append(entry[:400])
        if len(found) >= MOST:
            break
    return found


def _all(images: NumberedImages, *, foreign: bool) -> Iterator[str]:
    yield from image_inventory.strange(images)
    for entry in images.messages("files"):
        yield from _of_file(entry)
        yield from special_files.of_entry(entry, _elsewhere, foreign=foreign)
    for name in images.numbered("ghost-file"):
        for ghost in images.messages(name)[:1]:
            yield from special_files.of_ghost(ghost, _elsewhere)
    for chains in images.messages("seccomp"):
        if any(int(one.flags) & ~_FILTER_FLAGS for one in chains.seccomp_filters):
            yield "has a seccomp filter that is added in a way no session does"
    for one in images.messages("tty-info"):
        if int(one.type) not in _TERMINALS:
            yield f"has a terminal of kind {int(one.type)}, which is the host's"
    for item in images.messages("pstree"):
        yield from _of_process(images, int(item.pid), [int(tid) for tid in item.threads])


def _of_file(entry: Any) -> Iterator[str]:
    if int(entry.type) not in _KINDS:
        yield f"has an open file of kind {int(entry.type)}, which no session has"
    if entry.HasField("reg"):
        if entry.reg.HasField("ext") and entry.reg.ext:
            yield f"has a file from outside: {text(entry.reg.name)}"
        why = leads_out(text(entry.reg.name), int(entry.reg.flags))
        if not why and int(entry.reg.flags) & _ONCE:
            why = "with flags that no open file has"
        if why:
            yield f"has open {text(entry.reg.name)}, {why}"
    if entry.HasField("usk"):
        yield from _of_socket(entry.usk)


def _of_socket(socket: Any) -> Iterator[str]:
    name = bytes(socket.name)
    # The name of an abstract socket begins with a zero, and is not a path.
    if name and name[0]:
        why = leads_out(os.fsdecode(name.split(b"\0")[0]), os.O_RDWR, of_socket=True)
        if why:
            yield f"has a socket at {os.fsdecode(name)!r}, {why}"
    if socket.HasField("name_dir"):
        why = _elsewhere(text(socket.name_dir))
        if why:
            yield f"has a socket bound in {text(socket.name_dir)!r}, {why}"


def _elsewhere(name: str) -> str:
    """Return why nothing may be bound at, watched at or linked to a name; empty if it may."""
    below = f"{os.path.normpath(name)}/".startswith("/proc/")
    return leads_out(name, os.O_RDWR if below else os.O_RDONLY)


def _of_process(images: NumberedImages, pid: int, threads: list[int]) -> Iterator[str]:
    for mm in images.messages(f"mm-{pid}")[:1]:
        if any(int(area.status) & _PLUGIN for area in mm.vmas):
            yield f"has memory that only a plugin of CRIU can make, in process {pid}"
    for number in dict.fromkeys((pid, *threads)):
        for core in images.messages(f"core-{number}")[:1]:
            yield from _of_task(core, number)
            if number == pid and int(core.tc.task_state) != _ZOMBIE:
                yield from _of_limits(core.tc, pid)


def _of_task(core: Any, number: int) -> Iterator[str]:
    if core.HasField("tc") and core.tc.HasField("oom_score_adj") and core.tc.oom_score_adj < 0:
        yield f"wants process {number} to be spared when memory is short"
    if core.HasField("ids"):
        yield f"says of thread {number} twice in which namespaces it is"
    if not core.HasField("thread_core"):
        return
    thread = core.thread_core
    if int(thread.sched_policy) not in _SCHEDULERS or int(thread.sched_nice) < 0:
        yield f"wants thread {number} to run before others"
    if thread.HasField("creds"):
        creds = thread.creds
        if text(creds.lsm_profile) not in _PROFILES or text(creds.lsm_sockcreate):
            yield f"wants thread {number} under the security profile {text(creds.lsm_profile)[:100]!r}"
        if creds.HasField("apparmor_data"):
            yield "brings security profiles of its own"


def _of_limits(task: Any, pid: int) -> Iterator[str]:
    limits = list(task.rlimits.rlimits) if task.HasField("rlimits") else []
    if len(limits) <= max(_LIMITS):
        yield f"does not say which limits process {pid} has"
    for number, most in _LIMITS.items():
        if number < len(limits) and max(int(limits[number].cur), int(limits[number].max)) > most:
            yield f"wants limit {number} of process {pid} to be more than {most}"
    if task.HasField("timers"):
        for timer in task.timers.posix:
            if int(timer.clock_id) in _ALARMS:
                yield f"wants an alarm that wakes the machine, in process {pid}"


def leads_out(name: str, flags: int, *, of_socket: bool = False) -> str:
    """Return why no file of a session can have this name; empty if one can."""
    parts = name.split("/")
    if ".." in parts or "\0" in name:
        return "which is not a file name"
    if not of_socket and not name.startswith("/"):
        return "which is not a file name"
    path = "/" + "/".join(part for part in parts if part not in ("", "."))
    if not f"{path}/".startswith("/proc/"):
        return ""
    if flags & os.O_ACCMODE != os.O_RDONLY:
        return "for writing below /proc"
    match = _OF_PROCESS.fullmatch(path)
    if not match or match[1] is None:
        return ""
    if match[1] not in _READABLE or (match[2] and match[1] not in _WITH_FILES):
        return "which leads into a process"
    return ""
