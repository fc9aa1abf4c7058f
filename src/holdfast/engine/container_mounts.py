"""Mounts of containers, as the engine takes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import EngineError, StoreError

if TYPE_CHECKING:
    import docker.types


def bind(source: Path, target: str, *, read_only: bool = False, recursive: bool = True) -> docker.types.Mount:
    """Return the mount of a folder of the host. Mounts made below it later stay on their side.

    Without `recursive`, mounts below the source are left out, and those made there later appear.
    """
    from docker.types import Mount

    # rprivate: what is mounted in a container must not appear on the host.
    made = Mount(target, str(source.resolve()), type="bind", read_only=read_only, propagation="rprivate")
    if not recursive:
        made["BindOptions"] = {"NonRecursive": True, "Propagation": "rslave"}
    return made


@contextmanager
def seen_by_engine(folder: Path) -> Iterator[None]:
    """Explain, in the block, why the engine cannot mount a folder that this user can use.

    The engine is root, to which NFS and FUSE often grant nothing, and it may run among other mounts.

    Raises:
        StoreError: the engine may not read it, or does not find it.
    """
    try:
        yield
    except EngineError as error:
        text = str(error)
        place = str(folder.resolve())
        if place not in text or not any(sign in text for sign in _UNSEEN):
            raise
        why = "cannot read it" if "permission denied" in text else "does not see it"
        raise StoreError(
            f"cannot use state directory {folder}: the engine, which runs as root, {why}", hint=_UNSEEN_HINT
        ) from error


_UNSEEN = ("permission denied", "bind source path does not exist")
_UNSEEN_HINT = "set HOLDFAST_HOME to a folder on a local disk: NFS and FUSE often grant root nothing"
