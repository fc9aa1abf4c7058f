"""The first process of a container: whether it is ours, and whether its mounts are in place.

Everything privileged relies on PID 1 of a session: nothing else runs in a container that is being restored.
Its program lies in the state directory, named by its digest, and is mounted read-only from there under a name
that nothing of the session's own files can have. Which file a process runs is asked of the kernel.

The engine finds the place for a mount, and later the kernel whatever a program asks for, each on its own.
Links of the image can have them come to different places: /proc/self/cwd is another folder for each. A
program then finds a file of the image where we mounted ours. The folder in which a container begins is found
by the engine as well: /proc/self/fd/N was a folder of the host for some (CVE-2024-21626). All of that is
looked at while the first process waits and nothing else is in the container.
"""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from holdfast.procfs import bounded, mount_table, walk
from holdfast.snapshots.checkpointer.ground import beneath, folders, tree
from holdfast.snapshots.checkpointer.wire.requests import MountedPlaces

START_LIMIT = 10.0
"""Seconds for the engine to have a process run its program, once that was started."""
_POLL_SECONDS = 0.001

_digests: dict[tuple[int, ...], str] = {}
"""Of programs as they were. This process serves one request, in which each is checked several times."""


def check(init_pid: int) -> None:
    """Raise TargetMismatch unless a process runs one of those programs.

    Device and inode are compared, which no session can forge: it can neither write to the file nor run a
    different one under its number.
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
    """Tell a first process whether the end of its supervisor ends the session; otherwise it starts a new one.

    An ended first process is ignored.
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

    Until then it runs the engine's. A process that runs a file of the container's will not become ours on
    its own.

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
        return program_is_inside(init_pid)
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


class Astray(Exception):
    """A mount is not found at its path; the message names that."""


def require_mounted(init_pid: int, wanted: MountedPlaces) -> None:
    """Raise Astray unless everything is mounted in its place. Raises OSError if that cannot be seen."""
    root = beneath.root_of(init_pid)
    try:
        table = bounded.read(Path(f"/proc/{init_pid}/mountinfo"), walk.MAX_TEXT)
        points = {mount.id: mount.point for mount in mount_table.parse(table)}
        if _mount_led_to(init_pid, "cwd") not in points:
            raise Astray("its initial folder does not exist in the container")
        for place in (*wanted.own, *wanted.given):
            _require_place(root, points, place, links=place in wanted.given)
    finally:
        os.close(root)


def program_is_inside(init_pid: int) -> bool:
    """Check whether a process runs a file of the container, as opposed to the engine's own first program.

    Raises:
        OSError: it has ended, or is out of sight.
    """
    table = bounded.read(Path(f"/proc/{init_pid}/mountinfo"), walk.MAX_TEXT)
    return _mount_led_to(init_pid, "exe") in {mount.id for mount in mount_table.parse(table)}


def _mount_led_to(init_pid: int, link: str) -> int:
    """Return the number of the mount with the program (`exe`) or the folder (`cwd`) of a process."""
    found = os.open(f"/proc/{init_pid}/{link}", os.O_PATH | os.O_CLOEXEC)
    try:
        return _mount_of(found)
    finally:
        os.close(found)


def _require_place(root: int, points: Mapping[int, str], place: str, *, links: bool) -> None:
    """Raise Astray unless a mount is at `place`; `links` can lead there, but none of /proc."""
    opening = beneath.seen_inside if links else beneath.opened
    try:
        found = opening(root, place, os.O_PATH)
    except OSError as error:
        what = "a link" if error.errno == errno.ELOOP else os.strerror(error.errno or 0).lower()
        raise Astray(f"{place} does not lead to the folder mounted there ({what})") from error
    try:
        # A file that was removed or replaced on the host is still the one that is mounted.
        where = str(Path(f"/proc/self/fd/{found}").readlink()).removesuffix(" (deleted)")
        if points.get(_mount_of(found)) != where:
            raise Astray(f"{place} does not lead to the folder mounted there (but to {where} of the image)")
    finally:
        os.close(found)


def _mount_of(descriptor: int) -> int:
    info = walk.fdinfo_of(os.getpid(), descriptor)
    return info.mount_id if info is not None else -1
