"""Enters namespaces of other processes; makes children in a session's PID namespace."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

NEWNS, NEWPID, NEWNET = 0x00020000, 0x20000000, 0x40000000
"""Kinds of namespaces (linux/sched.h)."""


@contextmanager
def children_in(init_pid: int) -> Iterator[None]:
    """Children begun in the block get their pids in the namespace of `init_pid`.

    setns(2) with a PID namespace moves only children of the caller, so the caller can come back.
    """
    theirs = os.open(f"/proc/{init_pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    ours = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter(theirs, NEWPID)
        yield
    finally:
        enter(ours, NEWPID)
        os.close(theirs)
        os.close(ours)


def enter(namespace: int, kind: int) -> None:
    """Move this process into a namespace of a kind, by an open descriptor of it. Raises OSError."""
    if sys.version_info < (3, 12):
        raise OSError("os.setns came with Python 3.12; the checkpointer's image has 3.13")
    os.setns(namespace, kind)
