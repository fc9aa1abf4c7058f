"""Requests of images that sessions never make. Pure.

CRIU opens files that images name with privileges, inside the session's mounts but with its own entries below
/proc, through which other mounts can be reached. Names that kernels give to open files never lead there.

It makes sockets, timers, watches and deleted files with its own capabilities, where a program of the session
would be refused: raw sockets, packet marks, alarms that wake the machine, devices, and watches on files by
their number on disk.

It reads images of several versions, and makes the namespaces they ask for. Parts that it reads differently
from the judge have not been judged, and for new namespaces it would set up mounts and networks and run tools.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from holdfast.snapshots.checkpointer.record import ImageMessages, text

_VERSION = 2
"""CRTOOLS_IMAGES_V1_1 of CRIU's image.h: two magic numbers, and memory as it is."""
_SHARED = ("pid", "net", "uts", "mnt", "user")
"""Namespaces that a capture and its session have in common, so that both have the same number in images."""
_INTERNET = frozenset({2, 10})
"""AF_INET and AF_INET6."""
_WITHOUT_RAW = frozenset({1, 2})
"""SOCK_STREAM and SOCK_DGRAM; raw sockets need CAP_NET_RAW (raw(7))."""
_AUDIT = 9
"""NETLINK_AUDIT, which the profile of sessions refuses (netlink(7))."""
_MOST_PRIORITY = 6
"""Of a socket's packets without CAP_NET_ADMIN (socket(7), SO_PRIORITY)."""
_CLOCKS = frozenset({0, 1, 7})
"""CLOCK_REALTIME, MONOTONIC and BOOTTIME: without alarms, which need CAP_WAKE_ALARM (timerfd_create(2))."""
_GHOSTS = frozenset({stat.S_IFREG, stat.S_IFDIR, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFLNK})
"""Kinds of files a session can have open after their names were removed; it does not have CAP_MKNOD."""

Leads = Callable[[str], str]
"""Why a name leads out of the session; empty if it does not."""
MOST = 20
"""Sentences; what comes after them does not matter."""
_KINDS = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14, 17, 18, 20})
"""fd_types of CRIU's fdinfo.proto that a session can have: nothing external, no tunnels, no fanotify, which
gives who has it descriptors of what others open.

A namespace is opened again as that of a restored process, and those are all in the session's own.
"""
_TERMINALS = frozenset({1, 4})
"""tty_info.proto: pseudo terminals, and the type that controls a process."""
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


def _of_inventory(images: ImageMessages) -> Iterator[str]:
    """Return the parts that cannot come from a session's capture, in sentences without their subject.

    Raises:
        Unreadable: they are not images of CRIU.
    """
    found = images.messages("inventory")
    if len(found) != 1:
        yield "lacks an inventory of its images"
        return
    head = found[0]
    if int(head.img_version) != _VERSION or not head.fdinfo_per_id or not head.ns_per_id:
        yield "has images of a different version"
    if head.compress or head.tcp_close or head.allow_uprobes:
        yield "was captured in a way that sessions never are"
    if head.HasField("plugins_entry") and list(head.plugins_entry.plugins):
        yield "needs a plugin of CRIU"
    for item in images.messages("pstree"):
        yield from _namespaces_of(images, head.root_ids, int(item.pid))


def _namespaces_of(images: ImageMessages, root: Any, pid: int) -> Iterator[str]:
    found = images.messages(f"ids-{pid}")[:1]
    if not found and not has_ended(images, pid):
        yield f"does not declare the namespaces of process {pid}"
    for ids in found:
        other = [name for name in _SHARED if getattr(ids, f"{name}_ns_id") != getattr(root, f"{name}_ns_id")]
        if other:
            yield f"wants namespaces of its own for process {pid}: {', '.join(other)}"


def has_ended(images: ImageMessages, pid: int) -> bool:
    """Return whether a process in images is a zombie."""
    return any(int(core.tc.task_state) == _ZOMBIE for core in images.messages(f"core-{pid}")[:1])


def _of_entry(entry: Any, leads: Leads, *, foreign: bool) -> Iterator[str]:
    """Return the fault of an entry of files.img; `foreign` images must not name inodes of this machine."""
    if entry.HasField("isk"):
        yield from _of_internet(entry.isk)
    for field in ("isk", "usk", "nlsk"):
        if entry.HasField(field) and getattr(entry, field).HasField("opts"):
            yield from _of_options(getattr(entry, field).opts)
    if entry.HasField("nlsk") and int(entry.nlsk.protocol) == _AUDIT:
        yield "has a kernel audit socket"
    if entry.HasField("tfd") and int(entry.tfd.clockid) not in _CLOCKS:
        yield f"has a timer of clock {int(entry.tfd.clockid)}"
    if entry.HasField("ify"):
        for watch in entry.ify.wd:
            yield from _of_watch(watch.f_handle, leads, foreign=foreign)


def _of_ghost(ghost: Any, leads: Leads) -> Iterator[str]:
    """Return the fault of a file without a name, which CRIU makes again."""
    kind = stat.S_IFMT(int(ghost.mode))
    if kind not in _GHOSTS:
        yield "has a file without a name that is a device"
    if kind == stat.S_IFLNK:
        target = text(ghost.symlnk_target)
        why = leads(target if target.startswith("/") else f"/{target}")
        if why:
            yield f"has a link without a name to {target}, {why}"


def _of_internet(socket: Any) -> Iterator[str]:
    if int(socket.type) not in _WITHOUT_RAW or int(socket.family) not in _INTERNET:
        yield (
            f"has a socket of family {int(socket.family)} and type {int(socket.type)}, which "
            "no session can have"
        )
    if socket.HasField("ip_opts") and socket.ip_opts.HasField("raw"):
        yield "has a raw socket"


def _of_options(options: Any) -> Iterator[str]:
    if options.HasField("so_mark") and int(options.so_mark):
        yield "has a socket whose packets are marked"
    if options.HasField("so_priority") and int(options.so_priority) > _MOST_PRIORITY:
        yield "has a socket with prioritized packets"


def _of_watch(handle: Any, leads: Leads, *, foreign: bool) -> Iterator[str]:
    """CRIU opens files without a path by handle: any file on that disk (open_by_handle_at(2))."""
    if not handle.HasField("path"):
        if foreign:
            yield "watches a file without a path"
        return
    # It is relative to the root, after one character.
    path = text(handle.path)
    why = leads("/" + path[1:])
    if path[:1] != "/" or why:
        yield f"watches {path}, {why or 'which is not a file name'}"


class NumberedImages(ImageMessages, Protocol):
    """The images to read; see `criu_images.ImageFolder`."""

    def numbered(self, kind: str) -> list[str]:
        """Return the names of all images of a kind that can occur more than once."""


def strange(images: NumberedImages, *, foreign: bool = False) -> list[str]:
    """Return the parts that cannot come from a session, in sentences without their subject; at most MOST.

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
    yield from _of_inventory(images)
    for entry in images.messages("files"):
        yield from _of_file(entry)
        yield from _of_entry(entry, _elsewhere, foreign=foreign)
    for name in images.numbered("ghost-file"):
        for ghost in images.messages(name)[:1]:
            yield from _of_ghost(ghost, _elsewhere)
    for chains in images.messages("seccomp"):
        if any(int(one.flags) & ~_FILTER_FLAGS for one in chains.seccomp_filters):
            yield "has a seccomp filter added in a way that no session uses"
    for one in images.messages("tty-info"):
        if int(one.type) not in _TERMINALS:
            yield f"has a terminal of kind {int(one.type)}, which is the host's"
    for item in images.messages("pstree"):
        yield from _of_process(images, int(item.pid), [int(tid) for tid in item.threads])


def _of_file(entry: Any) -> Iterator[str]:
    if int(entry.type) not in _KINDS:
        yield f"has an open file of kind {int(entry.type)}, which no session can have"
    if entry.HasField("reg"):
        if entry.reg.HasField("ext") and entry.reg.ext:
            yield f"has a file from outside: {text(entry.reg.name)}"
        why = leads_out(text(entry.reg.name), int(entry.reg.flags))
        if not why and int(entry.reg.flags) & _ONCE:
            why = "with impossible flags for an open file"
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
    """Return why a name cannot be bound at, watched at or linked to; empty if it can."""
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
        yield f"declares the namespaces of thread {number} twice"
    if not core.HasField("thread_core"):
        return
    thread = core.thread_core
    if int(thread.sched_policy) not in _SCHEDULERS or int(thread.sched_nice) < 0:
        yield f"wants thread {number} to have priority over others"
    if thread.HasField("creds"):
        creds = thread.creds
        if text(creds.lsm_profile) not in _PROFILES or text(creds.lsm_sockcreate):
            yield f"wants thread {number} under the security profile {text(creds.lsm_profile)[:100]!r}"
        if creds.HasField("apparmor_data"):
            yield "brings security profiles of its own"


def _of_limits(task: Any, pid: int) -> Iterator[str]:
    limits = list(task.rlimits.rlimits) if task.HasField("rlimits") else []
    if len(limits) <= max(_LIMITS):
        yield f"does not declare the limits of process {pid}"
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
