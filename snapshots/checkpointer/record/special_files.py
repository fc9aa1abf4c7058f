"""Sockets, timers, watches and deleted files in images that no session can have. Pure.

CRIU makes these with its own capabilities, where a program of the session would be refused: raw sockets,
packet marks, alarms that wake the machine, devices, and watches on files by their number on disk.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from typing import Any

from holdfast.snapshots.checkpointer.record import text

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
"""Kinds of files a session can have open though their names are gone; it has no CAP_MKNOD."""

Leads = Callable[[str], str]
"""Why a name leads out of the session; empty if it does not."""


def of_entry(entry: Any, leads: Leads, *, foreign: bool) -> Iterator[str]:
    """Return what is wrong with an entry of files.img; `foreign` images may not name inodes of this
    machine.
    """
    if entry.HasField("isk"):
        yield from _of_internet(entry.isk)
    for field in ("isk", "usk", "nlsk"):
        if entry.HasField(field) and getattr(entry, field).HasField("opts"):
            yield from _of_options(getattr(entry, field).opts)
    if entry.HasField("nlsk") and int(entry.nlsk.protocol) == _AUDIT:
        yield "has a socket of the kernel's audit"
    if entry.HasField("tfd") and int(entry.tfd.clockid) not in _CLOCKS:
        yield f"has a timer of clock {int(entry.tfd.clockid)}"
    if entry.HasField("ify"):
        for watch in entry.ify.wd:
            yield from _of_watch(watch.f_handle, leads, foreign=foreign)


def of_ghost(ghost: Any, leads: Leads) -> Iterator[str]:
    """Return what is wrong with a file without a name, which CRIU makes again."""
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
        yield f"has a socket of family {int(socket.family)} and type {int(socket.type)}, which no session has"
    if socket.HasField("ip_opts") and socket.ip_opts.HasField("raw"):
        yield "has a raw socket"


def _of_options(options: Any) -> Iterator[str]:
    if options.HasField("so_mark") and int(options.so_mark):
        yield "has a socket whose packets are marked"
    if options.HasField("so_priority") and int(options.so_priority) > _MOST_PRIORITY:
        yield "has a socket whose packets go before others"


def _of_watch(handle: Any, leads: Leads, *, foreign: bool) -> Iterator[str]:
    """CRIU opens what has no path by its handle: any file on that disk (open_by_handle_at(2))."""
    if not handle.HasField("path"):
        if foreign:
            yield "watches a file that has no path"
        return
    # It is relative to the root, after one character.
    path = text(handle.path)
    why = leads("/" + path[1:])
    if path[:1] != "/" or why:
        yield f"watches {path}, {why or 'which is not a file name'}"
