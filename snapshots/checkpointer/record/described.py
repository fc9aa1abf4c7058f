"""Descriptors, sockets and terminals as CRIU's images describe them. Pure over decoded messages.

A descriptor: fd, kind, what, offset (of regular files and memfd, else None), flags (of the open file, without
close-on-exec), cloexec, deleted; `key` until `name_shared` has replaced it.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import stat
from collections.abc import Hashable
from typing import Any

from holdfast.procfs.socket_tables import TCP_STATES, UNIX_TYPES
from holdfast.snapshots.checkpointer.record import text

# Numbers of fd_types in CRIU's fdinfo.proto, with the field of the entry that describes such a file.
_TYPES = {
    1: ("file", "reg"),
    2: ("pipe", "pipe"),
    3: ("fifo", "fifo"),
    4: ("socket", "isk"),
    5: ("socket", "usk"),
    6: ("eventfd", "efd"),
    7: ("eventpoll", "epfd"),
    8: ("inotify", "ify"),
    9: ("signalfd", "sgfd"),
    10: ("socket", "psk"),
    11: ("terminal", "tty"),
    12: ("fanotify", "ffy"),
    13: ("socket", "nlsk"),
    14: ("namespace", "nsf"),
    15: ("tun", "tunf"),
    16: ("external", "ext"),
    17: ("timerfd", "tfd"),
    18: ("memfd", "memfd"),
    19: ("bpf-map", "bpf"),
    20: ("pidfd", "pidfd"),
}
_FORMATS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
    stat.S_IFLNK: "link",
}
_MASTER = os.makedev(5, 2)
"""/dev/ptmx; its other ends have 136 and up (devices.txt of Linux)."""
_LONGEST = 4096
FLAGS = os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK | os.O_DIRECT | os.O_PATH
"""Of the flags of an open file the ones that have an effect once it is open."""
_LISTEN = 10  # tcp_states.h of Linux, also for unix sockets
DescribedProcess = dict[str, Any]


class DescribedFiles:
    """The open files of a snapshot, by CRIU's number."""

    def __init__(self, files: list[Any], terminals: list[Any], memfds: list[Any], remaps: list[Any]) -> None:
        self._files = {int(entry.id): entry for entry in files}
        self._terminals = {int(one.id): one for one in terminals}
        self._memfds = {int(one.inode_id): one for one in memfds}
        self._gone = {int(one.orig_id) for one in remaps}

    def name(self, number: int) -> str:
        """Return the path of a file; empty if it has none."""
        entry = self._files.get(number)
        return text(entry.reg.name)[:_LONGEST] if entry is not None and entry.HasField("reg") else ""

    def descriptor(self, info: Any) -> dict[str, Any]:
        """Describe one descriptor of a process."""
        kind, field = _TYPES.get(int(info.type), ("other", ""))
        entry = self._files.get(int(info.id))
        found: dict[str, Any] = {
            "fd": int(info.fd),
            "kind": kind,
            "what": "",
            "offset": None,
            "flags": 0,
            "cloexec": bool(info.flags & 1),
            "deleted": int(info.id) in self._gone,
        }
        if entry is None or not field or not entry.HasField(field):
            return found
        file = getattr(entry, field)
        found["flags"] = int(getattr(self._with_flags(kind, file), "flags", 0)) & FLAGS
        self._describe(found, kind, file)
        return found

    def _with_flags(self, kind: str, file: Any) -> Any:
        """Return the place of the flags of an open file: a FIFO's are with the entry of its path."""
        if kind != "fifo" or not file.HasField("regf_id"):
            return file
        entry = self._files.get(int(file.regf_id))
        return entry.reg if entry is not None and entry.HasField("reg") else None

    def sockets(self) -> dict[str, dict[str, Any]]:
        """Return every socket, by the key its descriptors have."""
        sockets: dict[str, dict[str, Any]] = {}
        for number, entry in self._files.items():
            if entry.HasField("isk"):
                sockets[f"socket {number}"] = _internet(entry.isk)
            elif entry.HasField("usk"):
                sockets[f"socket {number}"] = _unix(entry.usk)
        return sockets

    def _describe(self, found: dict[str, Any], kind: str, file: Any) -> None:
        if kind == "file":
            found["kind"] = (
                _FORMATS.get(stat.S_IFMT(int(file.mode)), "file") if file.HasField("mode") else kind
            )
            found["what"] = text(file.name)[:_LONGEST]
            if found["kind"] == "file" and not found["flags"] & os.O_PATH:
                found["offset"] = int(file.pos)
        elif kind == "terminal":
            info = self._terminals.get(int(file.tty_info_id))
            if info is not None and info.HasField("pty"):
                found["what"] = f"{'master' if info.rdev == _MASTER else 'slave'} {info.pty.index}"
        elif kind == "memfd":
            inode = self._memfds.get(int(file.inode_id))
            found["what"] = text(inode.name)[:_LONGEST] if inode is not None else ""
            found["offset"] = int(file.pos)
        elif kind in ("pipe", "fifo"):
            found["key"] = f"{kind} {file.pipe_id}"
            if kind == "fifo":  # the file's own entry has its flags, by its path
                named = self._files.get(int(file.regf_id))
                found["flags"] = int(named.reg.flags) & FLAGS if named is not None else 0
        elif kind == "socket":
            found["key"] = f"socket {file.id}"


def terminals(found: list[Any]) -> list[dict[str, Any]]:
    """Return the slave ends: number, session, foreground process group, modes, size.

    A slave names its session only to a process of that session, a master to all (TIOCGSID, ioctl_tty(2)).
    """
    ends = [one for one in found if one.HasField("pty")]
    owners = {int(one.pty.index): one for one in ends if one.sid}
    return [
        {
            "index": int(one.pty.index),
            "session": int(owners.get(int(one.pty.index), one).sid),
            "foreground": int(owners.get(int(one.pty.index), one).pgrp),
            "modes": modes(one.termios),
            "rows": int(one.winsize.ws_row),
            "columns": int(one.winsize.ws_col),
        }
        for one in ends
        if one.rdev != _MASTER
    ]


def modes(termios: Any) -> str:
    """Return the modes of a terminal in hexadecimal: four words of flags, then the 19 control characters.

    CRIU has the characters as words of four, followed by whatever came after them in memory.
    """
    characters = b"".join(int(word).to_bytes(4, "little") for word in termios.c_cc[:5])[:19]
    flags = (termios.c_iflag, termios.c_oflag, termios.c_cflag, termios.c_lflag)
    return " ".join(f"{int(word):x}" for word in flags) + " " + characters.hex()


def _internet(entry: Any) -> dict[str, Any]:
    six = entry.family == socket.AF_INET6
    kinds = {socket.IPPROTO_TCP: "tcp", socket.IPPROTO_UDP: "udp", socket.IPPROTO_UDPLITE: "udplite"}
    kind = kinds.get(entry.proto, f"protocol {entry.proto}") + ("6" if six else "")
    state = TCP_STATES[entry.state] if entry.state < len(TCP_STATES) else "unknown"
    if kind.startswith("udp"):
        state = "connected" if entry.dst_port else "bound"
    return {
        "kind": kind,
        "state": state,
        "local": text_of(entry.src_addr),
        "local_port": int(entry.src_port),
        "remote": text_of(entry.dst_addr) if entry.dst_port else "",
        "remote_port": int(entry.dst_port),
    }


def _unix(entry: Any) -> dict[str, Any]:
    name = bytes(entry.name)
    # The kernel's table shows each zero of an abstract name so; a path ends at the first.
    plain = name.replace(b"\0", b"@") if name[:1] == b"\0" else name.rstrip(b"\0")
    return {
        "kind": f"unix {UNIX_TYPES.get(entry.type, 'other')}",
        "state": "listening" if entry.state == _LISTEN else "",
        "local": plain.decode("utf-8", "replace")[:_LONGEST],
        "local_port": 0,
        "remote": "",
        "remote_port": 0,
    }


def text_of(words: Any) -> str:
    """Format an address; CRIU keeps it as one or four 32-bit words in network byte order.

    Empty for any other number of words.
    """
    packed = b"".join(int(word).to_bytes(4, "little") for word in words)
    return str(ipaddress.ip_address(packed)) if len(packed) in (4, 16) else ""


def name_shared(processes: list[DescribedProcess]) -> None:
    """Give every descriptor that has a `key` a name in `what`: the lowest "PID/FD" with that key.

    Keys are removed. Processes are by pid, descriptors by number.
    """
    first: dict[Hashable, str] = {}
    for process in sorted(processes, key=lambda one: int(one["pid"])):
        for one in sorted(process["descriptors"], key=lambda each: int(each["fd"])):
            key = one.pop("key", None)
            if key is not None:
                own = f"{process['pid']}/{one['fd']}"
                one["what"] = f"{one['what']} {first.setdefault(key, own)}".lstrip()
