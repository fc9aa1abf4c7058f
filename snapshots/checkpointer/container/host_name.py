"""The host name of a running container, whose session was made ready before it had a name.

The name belongs to the container's own UTS namespace (uts_namespaces(7)), where processes of the session
are not allowed to set it.
"""

from __future__ import annotations

import ctypes
import os
import socket

from holdfast.snapshots.checkpointer.ground import tree
from holdfast.snapshots.checkpointer.wire.channel import HostChannel
from holdfast.snapshots.checkpointer.wire.requests import HostName

_NEW_UTS = 0x04000000
"""CLONE_NEWUTS of setns(2)."""


def run(request: HostName, channel: HostChannel) -> None:
    """Set the name. Raises TargetMismatch, OSError."""
    tree.check_container(request.init_pid, request.container)
    give(request.init_pid, request.name)
    channel.send("done")


def give(init_pid: int, name: str) -> None:
    """Move this thread into the UTS namespace of a container, and name its host.

    Raises:
        OSError: it cannot be entered, or this process is in it.
    """
    namespace = os.open(f"/proc/{init_pid}/ns/uts", os.O_RDONLY | os.O_CLOEXEC)
    try:
        ours = os.stat("/proc/thread-self/ns/uts")  # noqa: PTH116 - a magic link, not a path
        if os.path.samestat(ours, os.fstat(namespace)):
            raise OSError("the container has the host name of this process")
        libc = ctypes.CDLL(None, use_errno=True)  # os.setns came with Python 3.12
        if libc.setns(namespace, _NEW_UTS) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        socket.sethostname(name)
    finally:
        os.close(namespace)
