"""Records processes with an unusual personality (personality(2)), and restores it.

`setarch` and `linux32` give one: uname(2) tells another machine or version. CRIU does not know of it; the
guard sets it (guard_personality.c), and here it is seen that it did.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from holdfast.procfs import walk
from holdfast.snapshots.checkpointer.record import ImagesUnreadable

ALLOWED = frozenset({0x8, 0x20000, 0x20008})
"""PER_LINUX32, UNAME26, both: those that the profile of sessions lets programs take (images/seccomp.py). What
others do is to weaken a program: addresses that can be foreseen, memory that can be executed."""
MOST = 20_000
"""Processes."""


def of(pids: Iterable[int]) -> dict[str, int]:
    """Return the personalities of these processes, by pids of the session, in the form of a note."""
    found: dict[str, int] = {}
    for pid in pids:
        personality = _of(pid)
        status = walk.status_of(pid) if personality else None
        if status is not None:
            found[str(status.inner_pid)] = personality
    return found


def noted(found: Any) -> dict[int, int]:
    """Parse a note, which can come from elsewhere; empty without one.

    Raises:
        Unreadable: no session can have this.
    """
    if found is None:
        return {}
    if not isinstance(found, dict) or len(found) > MOST or not all(key.isdecimal() for key in found):
        raise ImagesUnreadable("the personalities of processes cannot be read")
    if not all(type(value) is int and value in ALLOWED for value in found.values()):
        raise ImagesUnreadable("a process has a personality that no session can have")
    return {int(key): value for key, value in found.items()}


@contextmanager
def guard_input(found: Mapping[int, int]) -> Iterator[int]:
    """Yield an open file with the guard's input."""
    descriptor = os.memfd_create("personalities")
    try:
        os.write(descriptor, "".join([" ", *(f"{pid}:{value:x} " for pid, value in found.items())]).encode())
        yield descriptor
    finally:
        os.close(descriptor)


def check(pids: Iterable[int], found: Mapping[int, int]) -> None:
    """Check that each process of a restored tree has exactly its former personality. Raises OSError."""
    for pid in pids:
        status = walk.status_of(pid)
        if status is not None and status.state not in "ZX" and _of(pid) != found.get(status.inner_pid, 0):
            raise OSError(f"process {status.inner_pid} does not have its previous personality")


def _of(pid: int) -> int:
    try:
        return int(walk.read(f"{pid}/personality") or b"0", 16)
    except ValueError:
        return 0
