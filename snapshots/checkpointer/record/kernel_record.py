"""Describes a frozen tree by the kernel's reports, in the form that `decode` gives to images.

No memory of processes is read: where it comes on demand, reading would wait for it. Files are examined
through their descriptors only; none of the session's paths is followed. A mapped file does not need a
descriptor: it is opened, mapped and closed. The mount through which it was opened counts, which the kernel
reveals by the mapping's entry in /proc/PID/map_files (proc_pid_map_files(5)).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import stat
import struct
import termios
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any

from holdfast.procfs import (
    bounded,
    descriptor_links,
    memory_maps,
    mount_table,
    process_stat,
    socket_tables,
    walk,
)
from holdfast.snapshots.checkpointer.record import credentials, described, labels
from holdfast.snapshots.checkpointer.record.described import FLAGS
from holdfast.snapshots.checkpointer.record.judged_limits import (
    MAX_DESCRIPTORS,
    MAX_GROUPS,
    MAX_MAPPED,
    MAX_NAMES,
)

MOST_TOLD = 20
"""Mappings of one process that are named; one is too many."""
_SYS_IO_SETUP = {"x86_64": 206, "aarch64": 0}

_FileKey = tuple[int, int, int]
_TABLES = ("tcp", "tcp6", "udp", "udp6")
_RARE = {"UDP-Lite": "udplite", "UDPLITEv6": "udplite6"}
"""Tables that are only read if there is a socket for them, by the kernel's names."""
_WITHOUT_TABLE = frozenset({"UNIX", "UNIX-STREAM", "NETLINK"})
"""Sockets that are in none of these, by the kernel's names."""
_PAGE = os.sysconf("SC_PAGESIZE")
_MASTER = os.makedev(5, 2)


class Mappings:
    """Of all processes of one tree."""

    def __init__(self, mounted: Callable[[str], bool]) -> None:
        """Prepare; `mounted` checks whether a link of /proc leads to a file on a mount of the container."""
        self._mounted = mounted
        self._judged: dict[_FileKey, bool] = {}
        self._kernel = devices_of_memory()

    def foreign(self, pid: int) -> list[str]:
        """Return a description of the foreign mappings of a process."""
        found: list[str] = []
        try:
            for one in (each for lines in walk.maps(pid) for each in memory_maps.parse(lines)):
                if one.inode and not self._known(pid, one):
                    found.append(f"memory ({one.path[:200]})")
                    if len(found) >= MOST_TOLD:
                        break
        except bounded.TooLong:
            found.append("memory (of more files than can be checked)")
        return found

    def _known(self, pid: int, one: memory_maps.Mapping) -> bool:
        key = (one.major, one.minor, one.inode)
        if key not in self._judged:
            if len(self._judged) >= MAX_MAPPED:
                return False
            self._judged[key] = self._is_ours(pid, one)
        return self._judged[key]

    def _is_ours(self, pid: int, one: memory_maps.Mapping) -> bool:
        # Memory without a file: memfds, System V segments, memory that processes share. No path leads to it.
        if (one.major, one.minor) in self._kernel:
            return True
        return self._mounted(f"/proc/{pid}/map_files/{one.start:x}-{one.end:x}")


@cache
def devices_of_memory() -> frozenset[tuple[int, int]]:
    """Return the kernel's own file systems: of shared memory, of ordinary and huge pages, and of rings of
    AIO.

    They stay the same while the machine runs, and finding the last one takes the kernel 15 ms.
    """
    found = set(_device_of_rings())
    for flags in (0, os.MFD_HUGETLB):
        try:
            descriptor = os.memfd_create("device", os.MFD_CLOEXEC | flags)
        except OSError:
            continue  # no huge pages here
        device = os.fstat(descriptor).st_dev
        os.close(descriptor)
        found.add((os.major(device), os.minor(device)))
    return frozenset(found)


def _device_of_rings() -> Iterator[tuple[int, int]]:
    """Return the kernel's place for the results of io_setup(2); None if it makes none."""
    number = _SYS_IO_SETUP.get(platform.machine())
    ring = ctypes.c_ulong(0)
    if number is None or ctypes.CDLL(None).syscall(number, 1, ctypes.byref(ring)) != 0:
        return
    for one in memory_maps.parse(walk.read("self/maps") or b""):
        if one.start == ring.value:
            yield one.major, one.minor
    ctypes.CDLL(None).syscall(number + 1, ring)  # io_destroy(2) is the next one on both


def look(pids: Iterable[int], init: int) -> dict[str, Any]:
    """Describe the processes with these pids (the reader's); `init` is the first of their container."""
    looking = _Looking(init)
    processes = [found for found in map(looking.process, pids) if found is not None]
    sockets = looking.sockets(processes)
    described.name_shared(processes)
    own = walk.status_of(init)
    first = None if own is None else {"tid": 1, "label": looking.labels.first} | credentials.of_status(own)
    return {
        "processes": processes,
        "sockets": sockets,
        "terminals": looking.terminals(),
        "left_out": looking.left_out,
        "init": first,
    }


class _Looking:
    def __init__(self, init: int) -> None:
        self._init = init
        self.labels = labels.LabelReader(init)
        self._namespaces = walk.namespaces_of(init)
        self._cgroups = walk.read(f"{init}/cgroup")
        self._mounts = {mount.id for mount in mount_table.parse(walk.read(f"{init}/mountinfo") or b"")}
        self._mappings = Mappings(partial(self._mounted, missing=False))
        self._inner: dict[int, int] = {}
        self._groups: dict[int, int] = {}
        self._protocols: set[str] = set()
        self._leaders: list[tuple[int, int, int]] = []
        self._room = MAX_DESCRIPTORS
        self._text = MAX_NAMES
        self._memberships = MAX_GROUPS
        self.left_out = 0
        self._terminals: dict[int, dict[str, Any]] = {}

    def process(self, pid: int) -> dict[str, Any] | None:
        status = walk.status_of(pid)
        if status is None:
            return None
        self._inner[pid] = status.inner_pid
        if status.inner_groups:
            self._groups[status.inner_groups[0]] = status.inner_groups[-1]
        found: dict[str, Any] = {
            "pid": status.inner_pid,
            "ppid": self._inner.get(status.parent, 0),
            "pgid": status.inner_groups[-1] if status.inner_groups else 0,
            "sid": status.inner_sessions[-1] if status.inner_sessions else 0,
            "state": "zombie" if status.state in "ZX" else "alive",
            "name": (walk.read(f"{pid}/comm") or b"").decode("utf-8", "replace").removesuffix("\n"),
            "threads": [],
            "descriptors": [],
        }
        if found["state"] == "zombie":
            return found
        threads = walk.threads(pid)
        self.left_out += max(0, status.threads - len(threads))
        for tid in threads:
            thread = walk.status_of(pid, tid)
            if thread is not None:
                self._memberships -= len(thread.groups)
                if self._memberships < 0:
                    self.left_out += 1
                    continue
                label = self.labels.of(pid, tid)
                found["threads"].append(
                    {"tid": thread.inner_pid, "label": label} | credentials.of_status(thread)
                )
        size = (walk.read(f"{pid}/statm") or b"0").split()
        found["memory"] = int(size[0]) * _PAGE
        for key, name in (("executable", "exe"), ("directory", "cwd"), ("root", "root")):
            found[key] = descriptor_links.parse(_link(f"/proc/{pid}/{name}")).name
        found["outside"] = self._outside(pid)
        found["foreign"] = [
            f"{name} ({found[key]})"
            for key, name in (("executable", "exe"), ("directory", "cwd"), ("root", "root"))
            if not self._mounted(f"/proc/{pid}/{name}")
        ]
        found["foreign"] += self._mappings.foreign(pid)
        self._descriptors(found, pid)
        self._leads(found, pid)
        return found

    def sockets(self, processes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the sockets among the descriptors that are in the kernel's tables; call this before they are
        named.
        """
        table: dict[int, dict[str, Any]] = {}
        # To list one of these takes the kernel 5 ms, whatever is in it: most sessions use none.
        ordinary = _TABLES if self._protocols - _WITHOUT_TABLE - set(_RARE) else ()
        for protocol in (*ordinary, *(_RARE[name] for name in sorted(self._protocols & set(_RARE)))):
            for one in socket_tables.internet(walk.read(f"{self._init}/net/{protocol}") or b"", protocol):
                table[one.inode] = {
                    "kind": one.protocol,
                    "state": one.state,
                    "local": one.local,
                    "local_port": one.local_port,
                    "remote": one.remote if one.remote_port else "",
                    "remote_port": one.remote_port,
                }
        for each in socket_tables.unix(walk.read(f"{self._init}/net/unix") or b""):
            state = each.state if each.state == "listening" else ""
            table[each.inode] = {"kind": each.protocol, "state": state, "local": each.local}
        used: dict[int, dict[str, Any]] = {}
        for process in sorted(processes, key=lambda one: int(one["pid"])):
            for one in process["descriptors"]:
                inode = one.get("key")
                if one["kind"] == "socket" and inode in table:
                    used.setdefault(inode, {"id": f"{process['pid']}/{one['fd']}", **table[inode]})
        return list(used.values())

    def terminals(self) -> list[dict[str, Any]]:
        """Return the open slave ends, with their owners."""
        for index, session, group in self._leaders:
            if index in self._terminals:
                self._terminals[index] |= {"session": session, "foreground": self._groups.get(group, 0)}
        return list(self._terminals.values())

    def _descriptors(self, found: dict[str, Any], pid: int) -> None:
        for fd in walk.descriptors(pid, max(0, self._room) + 1):
            if self._room <= 0 or self._text < 0:
                self.left_out += 1
                continue
            self._room -= 1
            self._descriptor(found, pid, fd)
            if found["descriptors"]:
                self._text -= len(found["descriptors"][-1]["what"])

    def _descriptor(self, found: dict[str, Any], pid: int, fd: int) -> None:
        link, info = walk.link_of(pid, fd), walk.fdinfo_of(pid, fd)
        if link is None or info is None:
            return
        one: dict[str, Any] = {
            "fd": fd,
            "kind": link.kind,
            "what": "",
            "offset": None,
            "flags": info.flags & FLAGS,
            "cloexec": bool(info.flags & os.O_CLOEXEC),
            "deleted": link.deleted,
        }
        if link.kind == "path":
            self._path(one, pid, fd, link.name, info)
            if info.mount_id not in self._mounts:
                found["foreign"].append(f"descriptor {fd} ({link.name[:200]})")
        elif link.kind == "memfd":
            one["what"], one["offset"], one["deleted"] = link.name, info.pos, False
        elif link.kind in ("pipe", "socket"):
            one["key"] = link.inode
            if link.kind == "socket":
                self._protocols.add(walk.protocol_of(pid, fd))
        elif link.kind == "anon":
            one["kind"] = link.name
        elif link.kind == "namespace" and link.inode not in self._namespaces.values():
            found["foreign"].append(f"descriptor {fd} (a namespace, {link.name})")
        elif link.kind == "other":
            one["kind"] = link.name
        found["descriptors"].append(one)

    def _path(self, one: dict[str, Any], pid: int, fd: int, path: str, info: Any) -> None:
        state = walk.stat_of(pid, fd)
        one["what"] = path
        if state is None:
            one["kind"] = "file"
            return
        form = stat.S_IFMT(state.st_mode)
        index = process_stat.pseudo_terminal(os.major(state.st_rdev), os.minor(state.st_rdev))
        if form == stat.S_IFIFO:
            one["kind"], one["what"], one["key"] = "fifo", "", (state.st_dev, state.st_ino)
        elif form == stat.S_IFCHR and state.st_rdev == _MASTER:
            one["kind"], one["what"] = "terminal", f"master {info.value('tty-index') or '?'}"
        elif form == stat.S_IFCHR and index is not None:
            one["kind"], one["what"] = "terminal", f"slave {index}"
            if index not in self._terminals and not info.flags & os.O_PATH:
                self._modes(index, pid, fd)
        elif form == stat.S_IFREG:
            one["kind"] = "file"
            one["offset"] = None if info.flags & os.O_PATH else info.pos
        else:
            one["kind"] = {stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}.get(form, "device")

    def _modes(self, index: int, pid: int, fd: int) -> None:
        """Modes and size of a terminal; opened once more, which its programs do not notice."""
        try:
            slave = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return
        try:
            # The kernel's struct termios: four words, the discipline, 19 characters.
            answer = fcntl.ioctl(slave, termios.TCGETS, bytes(60))
            words = struct.unpack_from("4I", answer)
            rows, columns = struct.unpack_from("2H", fcntl.ioctl(slave, termios.TIOCGWINSZ, bytes(8)))
        except OSError:
            return
        finally:
            os.close(slave)
        self._terminals[index] = {
            "index": index,
            "session": 0,
            "foreground": 0,
            "modes": " ".join(f"{word:x}" for word in words) + " " + answer[17:36].hex(),
            "rows": rows,
            "columns": columns,
        }

    def _leads(self, found: dict[str, Any], pid: int) -> None:
        """Note the terminal that a session's leader has, with its foreground group (proc_pid_stat(5))."""
        words = process_stat.fields(walk.read(f"{pid}/stat") or b"")
        if found["sid"] != found["pid"] or len(words) < 6:
            return
        index = process_stat.pseudo_terminal(*process_stat.device(int(words[4])))
        if index is not None:
            self._leaders.append((index, found["pid"], int(words[5])))

    def _outside(self, pid: int) -> list[str]:
        mine = walk.namespaces_of(pid)
        differing = [name for name, number in mine.items() if self._namespaces.get(name) != number]
        if walk.read(f"{pid}/cgroup") != self._cgroups:
            differing.append("cgroup path")
        return differing

    def _mounted(self, path: str, missing: bool = True) -> bool:
        """Check that the target of a /proc link is on a mount of the container; `missing` without one."""
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return missing
        try:
            info = walk.read(f"self/fdinfo/{descriptor}") or b""
        finally:
            os.close(descriptor)
        number = next((line.split()[1] for line in info.splitlines() if line.startswith(b"mnt_id:")), b"-1")
        return int(number) in self._mounts


def _link(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 - a Path costs more than the call
    except OSError:
        return ""
