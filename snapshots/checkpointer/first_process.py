"""Whether the first process of a container is ours.

Everything privileged relies on PID 1 of a session: nothing else runs in a container that is being restored.
Its program comes with the checkpointer's image, is put into the state directory under its digest, and is
mounted read-only from there over whatever the session's own files have in that place. A session that replaces
the file in its image gains nothing: which file a process runs is asked of the kernel.
"""

from __future__ import annotations

import functools
import hashlib
import os
import secrets
from pathlib import Path

from holdfast.snapshots.checkpointer import folders, tree

PROGRAM = Path("/opt/holdfast/init")
"""In the checkpointer's own image."""


@functools.cache
def deposit() -> str:
    """Put the program into the state directory unless it is there; its digest, which is its name there."""
    content = PROGRAM.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    place = folders.INIT / digest
    if not _is_intact(place):
        _write(place, content)
    return digest


def check(init_pid: int) -> None:
    """Raise TargetMismatch unless a process runs a program that was deposited here, and nothing else.

    Compared are device and inode, which no session can forge: it can neither write to the file nor run
    another one under its number.
    """
    try:
        running = os.stat(f"/proc/{init_pid}/exe")  # noqa: PTH116 - a magic link, not a path
    except OSError as error:
        raise tree.TargetMismatch(f"process {init_pid} cannot be read: {error.strerror}") from error
    for place in _deposited():
        known = place.lstat()
        if (known.st_dev, known.st_ino) == (running.st_dev, running.st_ino) and _is_intact(place):
            return
    raise tree.TargetMismatch(
        "the container's first process is not Holdfast's own; a session made by an older version has to be "
        "captured with `--kind filesystem` and restored from that"
    )


def _deposited() -> list[Path]:
    try:
        return list(folders.INIT.iterdir())
    except OSError:
        return []


def _is_intact(place: Path) -> bool:
    """Whether a file has the content that its name promises."""
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == place.name


def _write(place: Path, content: bytes) -> None:
    """Under a name of its own first: a container may be started from it at any moment."""
    place.parent.mkdir(mode=0o700, exist_ok=True)
    new = place.with_name(f".{secrets.token_hex(8)}")
    with new.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.chmod(0o555)
    folders.give_to_owner(new)
    new.rename(place)
    folders.give_to_owner(place.parent)
