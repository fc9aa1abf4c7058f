"""The folder that a session shares with the host: made and removed, on a small file system of its own.

A session can fill that file system and nothing else (`checkpointer/container/rooms.py` has the sizes). A
controller that runs as root next to the engine mounts it; for others the checkpointer does. Where neither
can, as engine and controller do not see the same mounts, the folder is an ordinary one without a limit; its
creation and `doctor` say so. The contents of the folder are the business of `run_dir.py`.

    HOME/run/ID/              never seen by the container; may be renamed while the session runs
    HOME/run/ID/room/         the mount point
    HOME/run/ID/room/shared/  what the container sees at /run/holdfast
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import EngineError, HoldfastError, LiveUnsupported, StoreError
from holdfast.snapshots.checkpointer.container import rooms

if TYPE_CHECKING:
    from holdfast.base.home import Home
    from holdfast.engine.engine import Engine

_UNSEEN = "mounts of the engine's machine are not visible from here"


def make(engine: Engine, home: Home, name: str, progress: Callable[[str], None] = lambda _line: None) -> Path:
    """Make the folder of a session, or of a container that will take a session's place, and return it.

    Raises:
        StoreError: the folder cannot be made, or the engine cannot use the home.
    """
    folder = home.run_dir(name)
    point = folder.parent
    try:
        for each in (point.parent, point):
            each.mkdir(mode=0o700, exist_ok=True)
        trouble = _mount(engine, home, point)
        folder.mkdir(mode=0o700, exist_ok=True)
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"cannot make {folder}: {error.strerror or error}") from error
    if trouble:
        progress(f"/run/holdfast of the session is not limited: {trouble}")
    return folder


def remove(engine: Engine, home: Home, name: str) -> None:
    """Remove the folder and its contents. Undeletable parts become garbage, which `gc` finds."""
    outer = home.run / name
    if outer.is_symlink():  # another name of a folder that is in use
        outer.unlink(missing_ok=True)
        return
    point = outer / rooms.POINT
    if rooms.mounted(point):
        with suppress(OSError, HoldfastError):
            if _direct(engine):
                rooms.unmount(point)
            else:
                _ask(engine, home, name, make=False)
    shutil.rmtree(outer, ignore_errors=True)


@contextmanager
def also_known(home: Home, name: str, mounted: str) -> Iterator[None]:
    """Let a container start in the block whose folder was renamed: `mounted` is the path it was made with.

    The engine looks for that path once, at the start.
    """
    former = home.run / Path(mounted).parents[1].name
    if not former.name.startswith(f"{name}.") or (former.exists() and not former.is_symlink()):
        yield
        return
    former.unlink(missing_ok=True)
    former.symlink_to(name)
    try:
        yield
    finally:
        former.unlink(missing_ok=True)


def trouble(engine: Engine, home: Home) -> str:
    """Return why shared folders made by this process would be unlimited; empty if they have a limit."""
    name = f"{os.getpid():012x}.try"
    try:
        folder = make(engine, home, name)
        bounded = rooms.mounted(folder.parent)
    finally:
        remove(engine, home, name)
    return "" if bounded else _UNSEEN


def _mount(engine: Engine, home: Home, point: Path) -> str:
    """Mount the room; return the error if that failed, else empty."""
    try:
        if _direct(engine):
            rooms.mount(point, os.getuid(), os.getgid())
        else:
            _ask(engine, home, point.parent.name, make=True)
            # It is in the engine's mount namespace, and may not spread to this one.
            if not rooms.mounted(point):
                _ask(engine, home, point.parent.name, make=False)
                return _UNSEEN
    except StoreError:  # the engine cannot use the home at all
        raise
    except (OSError, EngineError, LiveUnsupported) as error:
        return str(error)
    return ""


def _direct(engine: Engine) -> bool:
    """Check whether this process can mount visibly for the engine: both share one mount namespace."""
    if os.geteuid() != 0:
        return False
    with suppress(OSError):
        pid = _engine_process(engine.socket)
        return pid > 0 and rooms.same_mounts(pid, os.getpid())
    return False


def _engine_process(path: str) -> int:
    """Return the process that listens on the engine's socket (unix(7), SO_PEERCRED): the engine, or systemd.

    0 if it is in another PID namespace, or the engine is not reached through a socket of this machine.
    """
    if not path:
        return 0
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(path)
        size = struct.calcsize("3i")
        pid: int = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[0]
    return pid


def _ask(engine: Engine, home: Home, name: str, *, make: bool) -> None:
    from holdfast.snapshots import service  # 30 ms that a controller running as root need not spend
    from holdfast.snapshots.link import CheckpointerFailed

    pid = _engine_process(engine.socket)
    if not pid:
        raise EngineError("cannot mount it: the engine is not reached over a socket of this machine")
    request = {"home": os.path.realpath(home.root), "folder": name, "engine": pid, "make": make}
    try:
        with service.ask(engine, home, lambda _line: None, "room", **request) as link:
            link.until("done")
    except CheckpointerFailed as refusal:
        raise EngineError(str(refusal)) from refusal
