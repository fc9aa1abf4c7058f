"""Finds the folders a container's files are in, from what the kernel says about its root mount.

The engine's folder of layers is mounted at /layers; HOLDFAST_LAYERS names it as the host calls it. Pure
over the text of proc_pid_mountinfo(5).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from holdfast.procfs import bounded, overlay_mount, walk

HERE = Path("/layers")


@dataclass(frozen=True, slots=True)
class LayerFolders:
    """The folder a container writes to, and those of its image, the topmost first.

    `private` is what the attributes begin with in which the overlay keeps its own state.
    """

    upper: Path
    lowers: tuple[Path, ...]
    private: str


def layers(init_pid: int) -> LayerFolders | None:
    """Return the layers of a container; None if its files are stored differently, or out of sight."""
    there = os.environ.get("HOLDFAST_LAYERS", "")
    if not there:
        return None
    return find(bounded.read(Path(f"/proc/{init_pid}/mountinfo"), walk.MAX_TEXT), there, HERE)


def find(mountinfo: bytes, there: str, here: Path) -> LayerFolders | None:
    """Look for the overlay mounted at the root; folders below `there` are found below `here`."""
    prefix = there.rstrip("/") + "/"
    folders = overlay_mount.folders(mountinfo)
    if folders is None or not all(path.startswith(prefix) for path in folders):
        return None
    top, *rest = [here / path.removeprefix(prefix) for path in folders]
    return LayerFolders(top, tuple(rest), overlay_mount.private(mountinfo))
