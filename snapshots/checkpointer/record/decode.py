"""Describes a tree by CRIU's images, which decide the restore, whatever the session reports. Pure.

All numbers are the session's: pids of its own namespace. Bounded: beyond the limits things are only counted.
"""

from __future__ import annotations

import re
from typing import Any, Protocol

from holdfast.snapshots.checkpointer.record import (
    ImageMessages,
    ImagesUnreadable,
    credentials,
    described,
    text,
)
from holdfast.snapshots.checkpointer.record.described import DescribedFiles, terminals
from holdfast.snapshots.checkpointer.record.judged_limits import (
    MAX_DESCRIPTORS,
    MAX_GROUPS,
    MAX_MAPPED,
    MAX_NAMES,
    MAX_PROCESSES,
    MAX_THREADS,
)

_MAX_COMMAND = 1024
_MAX_ENVIRONMENT = 64 << 10
_MAX_NAMES = 50
# More than are secrets: who shows them decides.
_SECRET = re.compile(
    rb"(?=[A-Za-z_][A-Za-z0-9_]{0,99}\Z)(?i:.*(?:TOKEN|SECRET|PASS|CREDENTIAL|COOKIE|PRIVATE|KEY|AUTH).*)"
)
_STATES = {1: "alive", 2: "zombie", 3: "stopped"}
"""CRIU's task_state of protobuf core.proto."""
_VSYSCALL = 0xFFFFFFFFFF600000
"""A page the kernel has in every process of x86; not counted as its memory."""
_OF_FILE = 1 << 6 | 1 << 7
"""Of a mapping: private or shared, of a file (CRIU's image.h, VMA_FILE_PRIVATE and VMA_FILE_SHARED)."""


class ReadableImages(ImageMessages, Protocol):
    """The images to read; see `criu_images.ImageFolder`."""

    def memory(self, pid: int, start: int, size: int) -> bytes:
        """Return some bytes of a process's memory."""


def decode(images: ReadableImages, *, commands: bool = True) -> dict[str, Any]:
    """Return the whole description. Without `commands` no memory is read.

    Raises:
        Unreadable: they are not images of CRIU.
    """
    pstree = images.messages("pstree")
    _check_numbers(pstree)
    filters = [one for entry in images.messages("seccomp") for one in entry.seccomp_filters]
    ttys = images.messages("tty-info")
    files = DescribedFiles(
        images.messages("files"), ttys, images.messages("memfd"), images.messages("remap-fpath")
    )
    decoding = _Decoding(images, files, filters, commands)
    processes = [decoding.process(item) for item in pstree[:MAX_PROCESSES]]
    sockets = files.sockets()
    used: dict[str, dict[str, Any]] = {}
    for process in sorted(processes, key=lambda one: int(one["pid"])):
        for one in process["descriptors"]:
            if one.get("key") in sockets:
                used.setdefault(one["key"], {"id": f"{process['pid']}/{one['fd']}", **sockets[one["key"]]})
    described.name_shared(processes)
    return {
        "processes": processes,
        "sockets": list(used.values()),
        "terminals": terminals(ttys),
        "left_out": max(0, len(pstree) - MAX_PROCESSES) + decoding.left_out + decoding.files_left_out,
    }


def _check_numbers(pstree: list[Any]) -> None:
    """Check that a list of the same process, or of threads, is not read endlessly."""
    if len({int(item.pid) for item in pstree}) != len(pstree):
        raise ImagesUnreadable("two processes have the same pid")
    count = sum(len(item.threads) for item in pstree)
    if count > MAX_THREADS:
        raise ImagesUnreadable(f"there are {count} threads")


class _Decoding:
    def __init__(
        self, images: ReadableImages, files: DescribedFiles, filters: list[Any], commands: bool
    ) -> None:
        self._images = images
        self._files = files
        self._filters = filters
        self._commands = commands
        self._room = MAX_DESCRIPTORS
        self._text = MAX_NAMES
        self._memberships = MAX_GROUPS
        self._mapped: set[int] = set()
        self._tables: dict[int, list[Any]] = {}
        self._tids: set[int] = set()
        self.left_out = 0

    @property
    def files_left_out(self) -> int:
        """The number of mapped files beyond the limit."""
        return max(0, len(self._mapped) - MAX_MAPPED)

    def process(self, item: Any) -> dict[str, Any]:
        pid = int(item.pid)
        cores = self._images.messages(f"core-{pid}")
        core = cores[0] if cores else None
        state = _STATES.get(int(core.tc.task_state), "unknown") if core is not None else "unknown"
        found: dict[str, Any] = {
            "pid": pid,
            "ppid": int(item.ppid),
            "pgid": int(item.pgid),
            "sid": int(item.sid),
            "state": state,
            "name": text(core.tc.comm)[:16] if core is not None else "",
            "threads": [],
            "descriptors": [],
        }
        if core is None or state == "zombie":
            return found
        if core.thread_core.HasField("comm"):
            found["name"] = text(core.thread_core.comm)[:16]
        found["threads"] = [self._thread(pid, int(tid), core) for tid in item.threads]
        self._memory(found, pid)
        self._fs(found, pid)
        found["descriptors"] = self._descriptors(pid)
        return found

    def _thread(self, pid: int, tid: int, leader: Any) -> dict[str, Any]:
        # Not of what has ended: CRIU leaves whatever was in its memory there.
        if tid in self._tids:
            raise ImagesUnreadable(f"thread {tid} appears twice")
        self._tids.add(tid)
        core = leader if tid == pid else (self._images.messages(f"core-{tid}") or [None])[0]
        # Without credentials in its image CRIU would leave a task those it has itself.
        if core is None or not core.HasField("thread_core") or not core.thread_core.HasField("creds"):
            raise ImagesUnreadable(f"process {pid} does not declare the rights of its thread {tid}")
        self._memberships -= len(core.thread_core.creds.groups)
        if self._memberships < 0:
            raise ImagesUnreadable("its threads are in more groups than can be checked")
        return {"tid": tid} | credentials.of_core(core, self._filters, leader)

    def _memory(self, found: dict[str, Any], pid: int) -> None:
        mms = self._images.messages(f"mm-{pid}")
        if not mms:
            return
        mm = mms[0]
        spans = [(int(v.start), int(v.end)) for v in mm.vmas if v.start < _VSYSCALL]
        found["memory"] = sum(end - start for start, end in spans)
        found["mappings"] = len(spans)
        self._mapped.update(v.shmid for v in mm.vmas if v.status & _OF_FILE)
        found["dumpable"] = int(mm.dumpable)
        found["executable"] = self._files.name(int(mm.exe_file_id))
        if self._commands:
            size = min(_MAX_COMMAND, max(0, int(mm.mm_arg_end) - int(mm.mm_arg_start)))
            words = self._images.memory(pid, int(mm.mm_arg_start), size) if size else b""
            found["command"] = words.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
            found["secrets"] = self._secrets(pid, int(mm.mm_env_start), int(mm.mm_env_end))

    def _secrets(self, pid: int, start: int, end: int) -> list[str]:
        """Return the names of possibly secret variables among those the process was started with; no
        values.
        """
        size = min(_MAX_ENVIRONMENT, max(0, end - start))
        found = self._images.memory(pid, start, size).split(b"\0") if size else []
        names = (each.partition(b"=")[0] for each in found if b"=" in each)
        return sorted({name.decode() for name in names if _SECRET.fullmatch(name)})[:_MAX_NAMES]

    def _fs(self, found: dict[str, Any], pid: int) -> None:
        for fs in self._images.messages(f"fs-{pid}")[:1]:
            found["directory"] = self._files.name(int(fs.cwd_id))
            found["root"] = self._files.name(int(fs.root_id))

    def _descriptors(self, pid: int) -> list[dict[str, Any]]:
        """Return the descriptors. Processes can share a table; the images have each once, by a number of
        its own.
        """
        ids = self._images.messages(f"ids-{pid}")
        number = int(ids[0].files_id) if ids else 0
        if number not in self._tables:
            self._tables[number] = self._images.messages(f"fdinfo-{number}")
        infos = self._tables[number]
        kept = infos[: max(0, self._room)]
        self._room -= len(kept)
        found: list[dict[str, Any]] = []
        for info in kept:
            one = self._files.descriptor(info)
            self._text -= len(one["what"])
            if self._text < 0:
                break
            found.append(one)
        self.left_out += len(infos) - len(found)
        return found
