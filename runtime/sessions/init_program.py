"""The init program of every session's container: a file of the home, taken from the checkpointer's image.

A session can replace any file of its image, and the author of an image chooses all files and links in it, so
its first process never runs one of those: this file is mounted read-only under a path that is drawn for each
container (`session_options`). Before it does anything privileged, the checkpointer
asks the kernel whether the first process runs this file (`checkpointer/container/first_process.py`).
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.base.interrupts import held
from holdfast.errors import ImageError, StoreError
from holdfast.runtime.guest import layout

if TYPE_CHECKING:
    from holdfast.base.home import Home
    from holdfast.engine.engine import Engine

IN_IMAGE = "/opt/holdfast/init"
_LARGEST = 16 << 20
"""Upper bound in bytes. The program is linked statically and has less than a million."""


def obtain(engine: Engine, home: Home, progress: Callable[[str], None]) -> Path:
    """Return the file, named by its digest below a folder named by the image; extract it if it is missing.

    Raises:
        ImageError: the image cannot be built, or lacks the program.
        EngineError: the engine refuses.
        StoreError: the file cannot be written.
    """
    from holdfast.images import build

    folder = home.init / build.toolbox().rpartition(":")[2]
    known = _known(folder)
    if known is not None:
        return known
    return _write(folder, _taken_out(engine, home, build.ensure(engine.images, "toolbox", progress)))


def place() -> str:
    """Return the path in a new container of its first program.

    The engine finds the place for a mount, and the kernel the program to start, each on its own: links of the
    image, into /proc for one, can have them find different places. They cannot lead to another program of a
    name that no one knew when the image was made; the container does not start then. The engine has memory at
    /dev, so nothing of the name is in the session's files.
    """
    return f"{layout.FIRST_PROCESS}{secrets.token_hex(8)}/init"


def is_another(home: Home, pid: int) -> bool:
    """Check whether a process is known to run a program other than these.

    A user without the right to trace the process cannot know; that takes CAP_SYS_PTRACE (proc(5)).
    """
    try:
        running = os.stat(f"/proc/{pid}/exe")  # noqa: PTH116 - a magic link, not a path
        programs = [path.stat() for path in home.init.glob("*/*")]
    except OSError:
        return False
    return not any(os.path.samestat(running, known) for known in programs)


def _known(folder: Path) -> Path | None:
    try:
        return next((path for path in folder.iterdir() if not path.name.startswith(".")), None)
    except OSError:
        return None


def _taken_out(engine: Engine, home: Home, image: str) -> bytes:
    """Read the program from a container of the image that is never started."""
    labels = {"holdfast.home": home.digest, "holdfast.role": "init"}
    program = b""
    with held():
        container = engine.reserve(f"holdfast-init-{secrets.token_hex(6)}", image, labels)
        if container is not None:
            try:
                program = engine.files.read(container, IN_IMAGE, _LARGEST)
            finally:
                engine.kill_remove(container)
    if not program:
        raise ImageError(
            f"cannot take the first process out of {image}: the image does not have it",
            hint="`docker rmi` it",
        )
    return program


def _write(folder: Path, program: bytes) -> Path:
    """Write the program under a temporary name and link it: a container can start from it at any time.

    If another process does the same, the first file stays: containers started from it are known by its inode.
    """
    place = folder / hashlib.sha256(program).hexdigest()
    new = folder / f".{secrets.token_hex(6)}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        with new.open("xb") as file:
            file.write(program)
            file.flush()
            os.fsync(file.fileno())
        new.chmod(0o500)
        with suppress(FileExistsError):
            place.hardlink_to(new)
        new.unlink()
    except OSError as error:
        raise StoreError(f"cannot write {place}: {error.strerror or error}") from error
    return place
