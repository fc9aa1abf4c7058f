"""Mounts of containers, as the engine takes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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
