"""Repairs the leftovers of a killed capture: a frozen container, held packets, connections in repair mode.

CRIU reads a connection in that mode (TCP_REPAIR, tcp(7)); the guard takes each out of it as soon as it was
read, and puts all back if their processes are to end. A capture that dies in between leaves them so: reading
and writing fail with EPERM, in processes that are otherwise well. Only a process that waits in a read at that
time gets the error anyway: it continues before the repair.
"""

from __future__ import annotations

import socket
from contextlib import suppress

from holdfast.snapshots.checkpointer.criu.held_packets import Holding, PacketKind
from holdfast.snapshots.checkpointer.ground import pidfd_files, tree
from holdfast.snapshots.checkpointer.ground.freezer import Freezer
from holdfast.snapshots.checkpointer.wire.channel import HostChannel
from holdfast.snapshots.checkpointer.wire.requests import Mend

# linux/tcp.h; the last leaves the mode without a packet.
_TCP_REPAIR = 19
_ON = 1
_OFF_SILENTLY = -1


def run(request: Mend, channel: HostChannel) -> None:
    """Mend a container whose capture was cut short. Raises TargetMismatch, OSError."""
    tree.check_container(request.init_pid, request.container)
    Freezer(request.init_pid).thaw_leftover()
    channel.send("done", mended=mend(request.init_pid))


def mend(root: int) -> int:
    """Take the connections of a tree's processes out of repair mode; return their number. Raises OSError."""
    mended = 0
    # EACCES is the answer for a process that is just gone (proc_ns_get_link in fs/proc/namespaces.c).
    with suppress(FileNotFoundError, PermissionError), Holding(root) as packets:
        packets.let_go(PacketKind.CONNECTIONS)
    for pid, fd, _ in pidfd_files.sockets(root):
        # Of another kind, or gone meanwhile.
        with suppress(OSError), pidfd_files.borrow(pid, fd) as connection:
            if connection.getsockopt(socket.IPPROTO_TCP, _TCP_REPAIR) == _ON:
                connection.setsockopt(socket.IPPROTO_TCP, _TCP_REPAIR, _OFF_SILENTLY)
                mended += 1
    return mended
