"""What images ask for that no session has: files of kinds and in places that lead out of it. Pure.

CRIU opens what they name with privileges, inside the session's mounts but with its own entries below /proc,
through which other mounts can be reached. Names that kernels give to open files never lead there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, Protocol

MOST = 20
"""Sentences; what comes after them does not matter."""
_KINDS = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 17, 18, 20})
"""fd_types of CRIU's fdinfo.proto that a session can have: nothing external, no tunnels.

A namespace is opened anew as that of a restored process, and those are all in the session's own.
"""
_TERMINALS = frozenset({1, 4})
"""tty_info.proto: pseudo terminals, and the one that controls a process."""
_PLUGIN = 1 << 27
"""Of a mapping: made by a plugin (CRIU's image.h, VMA_EXT_PLUGIN)."""
_SCHEDULERS = frozenset({0, 3, 5})
"""SCHED_OTHER, SCHED_BATCH, SCHED_IDLE (sched(7)); others need a capability that no session has."""
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


class Images(Protocol):
    """What is read; see `source.Source`."""

    def messages(self, name: str) -> list[Any]:
        """The messages of an image."""


def strange(images: Images) -> list[str]:
    """What is not of a session, in sentences without their subject; at most MOST.

    Raises:
        Unreadable: they are not images of CRIU.
    """
    found: list[str] = []
    for text in _all(images):
        if text not in found:
            found.append(text[:400])
        if len(found) >= MOST:
            break
    return found


def _all(images: Images) -> Iterator[str]:
    for entry in images.messages("files"):
        yield from _of_file(entry)
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
            yield f"has a file from outside: {entry.reg.name}"
        why = leads_out(str(entry.reg.name), int(entry.reg.flags))
        if why:
            yield f"has open {entry.reg.name}, {why}"
    if entry.HasField("usk"):
        name = bytes(entry.usk.name)
        # The name of an abstract socket begins with a zero, and is no path.
        if name and name[0]:
            why = leads_out(os.fsdecode(name.split(b"\0")[0]), os.O_RDWR, of_socket=True)
            if why:
                yield f"has a socket at {os.fsdecode(name)!r}, {why}"


def _of_process(images: Images, pid: int, threads: list[int]) -> Iterator[str]:
    for mm in images.messages(f"mm-{pid}")[:1]:
        if any(int(area.status) & _PLUGIN for area in mm.vmas):
            yield f"has memory that only a plugin of CRIU can make, in process {pid}"
    for number in dict.fromkeys((pid, *threads)):
        for core in images.messages(f"core-{number}")[:1]:
            yield from _of_task(core, number)


def _of_task(core: Any, number: int) -> Iterator[str]:
    if core.HasField("tc") and core.tc.HasField("oom_score_adj") and core.tc.oom_score_adj < 0:
        yield f"wants process {number} to be spared when memory is short"
    if not core.HasField("thread_core"):
        return
    thread = core.thread_core
    if int(thread.sched_policy) not in _SCHEDULERS or int(thread.sched_nice) < 0:
        yield f"wants thread {number} to run before others"
    if thread.HasField("creds"):
        creds = thread.creds
        if str(creds.lsm_profile) not in _PROFILES or str(creds.lsm_sockcreate):
            yield f"wants thread {number} under the security profile {str(creds.lsm_profile)[:100]!r}"
        if creds.HasField("apparmor_data"):
            yield "brings security profiles of its own"


def leads_out(name: str, flags: int, *, of_socket: bool = False) -> str:
    """Why a name of an open file is none that a session's file can have; empty if it is."""
    parts = name.split("/")
    if ".." in parts or "\0" in name:
        return "which is no name of a file"
    if not of_socket and not name.startswith("/"):
        return "which is no name of a file"
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
