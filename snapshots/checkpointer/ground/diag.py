"""The sockets of a session's network namespace, listed by the kernel.

Owns the way into that namespace and out of it; `procfs.sock_diag` has the queries.
"""

from __future__ import annotations

import os
import socket

from holdfast.procfs import sock_diag
from holdfast.procfs.socket_tables import SocketRow
from holdfast.snapshots.checkpointer.ground import separate_process

PATIENCE = 1.0  # seconds


def listed(process: int) -> list[SocketRow]:
    """Return the TCP, UDP and unix sockets of the network namespace of a process; none if it has ended."""
    try:
        with _in_namespace(process) as link:
            return list(sock_diag.every(link))
    except OSError:
        return []


def files(process: int) -> dict[int, tuple[int, int]]:
    """Return the files of unix sockets in the network namespace of a process, see `sock_diag.unix_files`."""
    try:
        with _in_namespace(process) as link:
            return sock_diag.unix_files(link)
    except OSError:
        return {}


def _in_namespace(process: int) -> socket.socket:
    """Return a socket that queries a different namespace. A socket stays in its original namespace."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    other = os.open(f"/proc/{process}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        separate_process.enter_namespace(other, separate_process.NEWNET)
        try:
            link = sock_diag.opened(PATIENCE)
        finally:
            separate_process.enter_namespace(own, separate_process.NEWNET)
    finally:
        os.close(own)
        os.close(other)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    return link
