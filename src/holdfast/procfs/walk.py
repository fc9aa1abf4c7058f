"""Readers of a tree of processes in /proc, with bounds and without side effects on it.

Nothing is stopped meanwhile: processes begin and end during a walk, and what is gone is left out. Pids are
those of the reader's PID namespace (the checkpointer's: the host's). No link of /proc is followed unless a
function says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from holdfast.base.value_classes import dataclass
from holdfast.procfs import bounded, descriptor_info, descriptor_links, process_status
from holdfast.procfs.descriptor_info import FdInfo
from holdfast.procfs.descriptor_links import DescriptorTarget
from holdfast.procfs.process_status import ProcessStatus

PROC = Path("/proc")
MAX_PROCESSES = 20_000
MAX_THREADS = 20_000
EVERY = 1 << 22
"""As many tasks as Linux can have (PID_MAX_LIMIT), where none may be left out."""
MAX_DESCRIPTORS = 20_000
"""Of one process."""
MAX_TEXT = 16 << 20
"""Bytes of a file that is read as a whole."""
MAX_MAPS = 320 << 20
"""Bytes of one list of mappings: at most 65530 (vm.max_map_count), each with a path of up to 4 kB."""
SMALL = 2048
"""The kernel fills a page with whole lines before it stops: a far shorter read was the last one."""
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "time_for_children", "user", "uts")


@dataclass(frozen=True, slots=True)
class PidTree:
    """Pids of a tree, parents before children; `whole` is false if it has more than were wanted."""

    pids: tuple[int, ...]
    whole: bool


def tree(root: int, most: int | None = None) -> PidTree:
    """Return `root` and its descendants as of now; empty if it is gone.

    At most `most` processes are listed, MAX_PROCESSES unless given, and that many threads of each looked at.
    """
    most = MAX_PROCESSES if most is None else most
    found = [root] if (PROC / str(root)).exists() else []
    for pid in found:
        if len(found) > most:
            return PidTree(tuple(found[:most]), whole=False)
        found.extend(children(pid, max(most, MAX_THREADS)))
    return PidTree(tuple(dict.fromkeys(found)), whole=True)


def children(pid: int, most: int | None = None) -> list[int]:
    """Return the direct children of every thread of `pid`; empty if it is gone."""
    found: list[int] = []
    for thread in threads(pid, most):
        words = read(f"{pid}/task/{thread}/children", small=SMALL) or b""
        found.extend(int(word) for word in words.split())
    return found


def threads(pid: int, most: int | None = None) -> list[int]:
    """Return the threads of a process, its first one included."""
    return _numbers(f"{pid}/task", MAX_THREADS if most is None else most)


def descriptors(pid: int, most: int = MAX_DESCRIPTORS) -> list[int]:
    """Return the numbers of the open descriptors of a process, lowest first; empty for a zombie."""
    return _numbers(f"{pid}/fd", most)


def status_of(pid: int, thread: int | None = None) -> ProcessStatus | None:
    """Return the status of a process, or of one of its threads; None if it is gone."""
    data = read(f"{pid}/status" if thread is None else f"{pid}/task/{thread}/status", small=SMALL)
    return process_status.parse(data) if data is not None else None


def link_of(pid: int, fd: int) -> DescriptorTarget | None:
    """Return the target of a descriptor; None if it is closed."""
    target = _target(f"{pid}/fd/{fd}")
    return descriptor_links.parse(target) if target is not None else None


def fdinfo_of(pid: int, fd: int) -> FdInfo | None:
    """Return the information about a descriptor; None if it is closed."""
    data = read(f"{pid}/fdinfo/{fd}", small=SMALL)
    return descriptor_info.parse(data) if data is not None else None


def stat_of(pid: int, fd: int) -> os.stat_result | None:
    """Return the state of an open file. The kernel goes to the file itself, no path is followed.

    A file system in user space may not answer for long: check where the file is mounted first.
    """
    try:
        return os.stat(f"{PROC}/{pid}/fd/{fd}")  # noqa: PTH116 - a Path costs more than the call
    except OSError:
        return None


def protocol_of(pid: int, fd: int) -> str:
    """Return the kernel's name for the kind of a socket; the tables of a namespace do not list all."""
    try:
        name = os.getxattr(f"{PROC}/{pid}/fd/{fd}", "system.sockprotoname")
    except OSError:
        return ""
    return name.rstrip(b"\0").decode("ascii", "replace")


def by_name(pid: int, fd: int) -> bool:
    """Check whether a descriptor only names a file (O_PATH): its link then lacks the bits to read or
    write."""
    try:
        return not os.lstat(f"{PROC}/{pid}/fd/{fd}").st_mode & 0o600
    except OSError:
        return False


def namespaces_of(pid: int, names: tuple[str, ...] = NAMESPACES) -> dict[str, int]:
    """Return the number of each namespace a process is in; empty if it is gone."""
    found = {name: _target(f"{pid}/ns/{name}") for name in names}
    return {name: descriptor_links.namespace(target) for name, target in found.items() if target is not None}


def command_of(pid: int) -> str:
    """Return the words of a process, separated by blanks; empty for a zombie."""
    return (read(f"{pid}/cmdline", 4096) or b"").rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")


def read(name: str, limit: int = MAX_TEXT, small: int = 0) -> bytes | None:
    """Return a file below /proc, up to `limit` bytes; None if its process is gone.

    A read shorter than `small` is taken for the last one, without a further call. Only where no line is long.
    """
    try:
        descriptor = os.open(f"{PROC}/{name}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return b"".join(bounded.pieces(descriptor, limit, small))
    except OSError:
        return None
    finally:
        os.close(descriptor)


def maps(pid: int) -> Iterator[bytes]:
    """Yield /proc/PID/maps, some lines at a time; nothing if the process is gone.

    Raises:
        TooLong: there is more than MAX_MAPS. A judge of it cannot leave out the rest.
    """
    try:
        yield from bounded.lines(PROC / str(pid) / "maps", MAX_MAPS)
    except bounded.TooLong:
        raise
    except OSError:
        return


def _target(name: str) -> str | None:
    try:
        return os.readlink(f"{PROC}/{name}")  # noqa: PTH115 - a Path costs more than the call
    except OSError:
        return None


def _numbers(name: str, most: int) -> list[int]:
    try:
        with os.scandir(f"{PROC}/{name}") as entries:
            found: list[int] = []
            for entry in entries:
                if len(found) >= most:
                    break
                if entry.name.isdecimal():
                    found.append(int(entry.name))
    except OSError:
        return []
    return sorted(found)
