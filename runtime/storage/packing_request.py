"""The request to pack unpacked snapshots: a mark in the home, and the process that obeys it.

    chunks/todo     there is something to do; its content says why the last attempt failed
    chunks/sweep    that includes pages that nothing needs any more
    chunks/packer   locked by the process that packs, of which there is one at a time

The mark outlives that process: the next command starts another. After a failure its time is in the
future, and the next attempt waits until then. `Home.has_unpacked` looks for the mark in every command.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from holdfast.base import locks, private_files
from holdfast.base.home import Home
from holdfast.errors import StoreError
from holdfast.snapshots.chunks import pack_turn

AGAIN_SECONDS = 60.0
"""How long after a failure the next attempt is made."""
LOWEST = 19
"""The priority of that process, as nice(1) counts."""
COLLECTOR = "holdfast-packer"
"""The name of the thread that waits for a packing process, in the process that has started it."""
_WORKER = "holdfast.runtime.storage.background_packer"
_MOST = 500


def mark(home: Home) -> None:
    """Request packing.

    Raises:
        OSError: the home cannot be written.
    """
    private_files.replace(_todo(home), b"", durable=False)


def mark_sweep(home: Home) -> None:
    """Record that there are pages to remove, which another process was changing.

    Raises:
        OSError: the home cannot be written.
    """
    (home.root / "chunks" / "sweep").touch(mode=private_files.MODE)
    mark(home)


def wants_sweep(home: Home) -> bool:
    """Check whether there are pages to remove."""
    return (home.root / "chunks" / "sweep").exists()


def swept(home: Home) -> None:
    """Record that the sweep has begun: pages freed from now on need a later one."""
    (home.root / "chunks" / "sweep").unlink(missing_ok=True)


def postpone(home: Home, why: str) -> None:
    """Record the reason of a failure, and when to try again.

    Raises:
        OSError: the home cannot be written.
    """
    with suppress(OSError):  # without room for the reason, the time counts
        private_files.replace(_todo(home), why[:_MOST], durable=False)
    at = time.time() + AGAIN_SECONDS
    os.utime(_todo(home), (at, at))


def mark_of(home: Home) -> tuple[int, int] | None:
    """Return the identity of this mark, as against later ones; None without work."""
    with suppress(OSError):
        found = _todo(home).stat()
        return found.st_ino, found.st_mtime_ns
    return None


def clear(home: Home, seen: tuple[int, int] | None) -> bool:
    """Remove the mark unless it was made after the one that was `seen`; return whether no mark is left."""
    if mark_of(home) == seen:
        _todo(home).unlink(missing_ok=True)
    return mark_of(home) is None


def due(home: Home) -> bool:
    """Check whether there is work now."""
    with suppress(OSError):
        return _todo(home).stat().st_mtime <= time.time()
    return False


def trouble(home: Home) -> str:
    """Return why the last attempt failed; empty if it did not."""
    with suppress(OSError):
        return _todo(home).read_text("utf-8", "replace")[:_MOST]
    return ""


def start(home: Home) -> None:
    """Start a process that does the pending work, unless one is running. It outlives its caller.

    It has the lock of the process that packs from its start on, so that commands do not start a second one.
    """
    if not due(home) or at_work(home):
        return
    import subprocess

    # Unless it can be started now, the next command does it.
    with suppress(OSError, StoreError), locks.whole_file(lock_of(home), 0.0) as lock:
        command = [sys.executable, "-m", _WORKER, str(home.root.absolute()), str(lock)]
        process = subprocess.Popen(
            command,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=(lock,),
        )
        _stand_back(process.pid)
        # A caller that lives longer collects it.
        threading.Thread(target=process.wait, name=COLLECTOR, daemon=True).start()


def _stand_back(pid: int) -> None:
    """Give a process the lowest priority before it has loaded anything.

    Where the kernel shares processors among sessions of processes first, a process that begins one of its own
    has the priority of that (sched(7), autogroup).
    """
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, LOWEST)
    with suppress(OSError):  # without such groups, or right after another change of one (100 ms)
        Path(f"/proc/{pid}/autogroup").write_text(str(LOWEST))


def lock_of(home: Home) -> Path:
    """Return the file that the process which packs has locked."""
    return home.root / "chunks" / "packer"


def at_work(home: Home) -> bool:
    """Check whether a process packs."""
    return pack_turn.claimed(lock_of(home))


def _todo(home: Home) -> Path:
    return home.root / "chunks" / "todo"
