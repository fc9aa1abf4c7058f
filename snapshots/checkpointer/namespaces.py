"""Makes children in a session's PID namespace."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def children_in(init_pid: int) -> Iterator[None]:
    """Children begun in the block get their pids in the namespace of `init_pid`.

    setns(2) with a PID namespace moves only children of the caller, so the caller can come back.
    """
    theirs = os.open(f"/proc/{init_pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    ours = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter(theirs)
        yield
    finally:
        _enter(ours)
        os.close(theirs)
        os.close(ours)


def _enter(namespace: int) -> None:
    if sys.version_info < (3, 12):
        raise RuntimeError("os.setns came with Python 3.12; the checkpointer's image has 3.13")
    os.setns(namespace, os.CLONE_NEWPID)
