"""Whether the first process of a container is ours.

Everything privileged relies on PID 1 of a session: nothing else runs in a container that is being restored.
Its program lies in the state directory, named by its digest, and is mounted read-only from there under a name
that nothing of the session's own files can have. Which file a process runs is asked of the kernel.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from holdfast.snapshots.checkpointer.container import mounted_places
from holdfast.snapshots.checkpointer.ground import folders, tree

START_LIMIT = 10.0
"""Seconds for the engine to have a process run its program, once that was started."""
_POLL_SECONDS = 0.001

_digests: dict[tuple[int, ...], str] = {}
"""Of programs as they were. This process serves one request, in which each is checked several times."""


def check(init_pid: int) -> None:
    """Raise TargetMismatch unless a process runs one of those programs.

    Compared are device and inode, which no session can forge: it can neither write to the file nor run
    another one under its number.
    """
    try:
        running = os.stat(f"/proc/{init_pid}/exe")  # noqa: PTH116 - a magic link, not a path
    except OSError as error:
        raise tree.TargetMismatch(f"process {init_pid} cannot be read: {error.strerror}") from error
    for place in _programs():
        known = place.lstat()
        if (known.st_dev, known.st_ino) == (running.st_dev, running.st_ino) and _is_intact(place):
            return
    raise tree.TargetMismatch(
        "the container's first process is not Holdfast's own; a session made by an older version has to be "
        "captured with `--kind filesystem` and restored from that"
    )


def ends_with_tree(init_pid: int, *, ends: bool) -> None:
    """Tell a first process whether the end of its supervisor is the session's; otherwise it starts another.

    Nothing happens if it is gone.
    """
    with suppress(OSError):
        process = os.pidfd_open(init_pid)
        try:
            check(init_pid)
            signal.pidfd_send_signal(process, signal.SIGHUP if ends else signal.SIGUSR1)
        finally:
            os.close(process)


def await_ours(init_pid: int) -> None:
    """Wait until the first process runs one of those programs, as it soon does once it is started.

    Until then it runs the engine's. One that runs a file of the container's will not become ours by itself.

    Raises:
        TargetMismatch: it does not.
    """
    deadline = time.monotonic() + START_LIMIT
    while True:
        inside = _runs_inside(init_pid)
        try:
            check(init_pid)
        except tree.TargetMismatch:
            if inside or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_SECONDS)
        else:
            return


def _runs_inside(init_pid: int) -> bool:
    try:
        return mounted_places.program_is_inside(init_pid)
    except OSError as error:
        raise tree.TargetMismatch(f"process {init_pid} cannot be read: {error.strerror}") from error


def _programs() -> list[Path]:
    try:
        return [path for folder in folders.INIT.iterdir() for path in folder.iterdir()]
    except OSError:
        return []


def _is_intact(place: Path) -> bool:
    """Check that a file has the content that its name promises."""
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if state not in _digests:
            _digests[state] = hashlib.file_digest(file, "sha256").hexdigest()
    return _digests[state] == place.name
