"""Gives a new session's workspace to the user of the session: the engine makes it as root's.

Only the folder itself, never one that is mounted: that is the host's, or a volume of others.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from holdfast.runtime.guest.identity.account import UserAccount

_DEVICE, _PART, _MOUNT_POINT = 2, 3, 4
"""Places among the fields of a line: of what a mount shows, and of its path (proc_pid_mountinfo(5))."""


def give(folder: Path, account: UserAccount, mounts: Path = Path("/proc/self/mountinfo")) -> None:
    """Let the user write in the folder if it is root's; leave alone what is no folder, or mounted."""
    if not account.foreign or str(folder) in _mounted(mounts.read_bytes()):
        return
    with suppress(OSError):  # an image may have something else there, such as a broken link
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_uid == os.getuid():
                os.fchown(descriptor, account.uid, account.gid)
        finally:
            os.close(descriptor)


def _mounted(table: bytes) -> set[str]:
    """Return where something is mounted. Names that had to be escaped are not that of a workspace.

    Below a read-only root, folders that are writable are mounts of the session's own files.
    """
    rows = [line.split() for line in table.decode("utf-8", "surrogateescape").splitlines()]
    own = {(row[_DEVICE], row[_PART].rstrip("/")) for row in rows if row[_MOUNT_POINT:][:1] == ["/"]}
    return {
        row[_MOUNT_POINT]
        for row in rows
        if len(row) > _MOUNT_POINT
        and not any((row[_DEVICE], row[_PART]) == (device, part + row[_MOUNT_POINT]) for device, part in own)
    }
