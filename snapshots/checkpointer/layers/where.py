"""Finds the folders a container's files are in, from what the kernel says about its root mount.

The engine's folder of layers is mounted at /layers; HOLDFAST_LAYERS names it as the host calls it. Pure
over the text of proc_pid_mountinfo(5).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from holdfast.procfs import bounded, mount_table, walk

HERE = Path("/layers")


@dataclass(frozen=True, slots=True)
class LayerFolders:
    """The folder a container writes to, and those of its image, the topmost first."""

    upper: Path
    lowers: tuple[Path, ...]


def layers(init_pid: int) -> LayerFolders | None:
    """Return the layers of a container; None if its files are stored differently, or out of sight."""
    there = os.environ.get("HOLDFAST_LAYERS", "")
    if not there:
        return None
    return find(bounded.read(Path(f"/proc/{init_pid}/mountinfo"), walk.MAX_TEXT), there, HERE)


def find(mountinfo: bytes, there: str, here: Path) -> LayerFolders | None:
    """Look for the overlay mounted at the root; folders below `there` are found below `here`."""
    for mount in mount_table.parse(mountinfo):
        if mount.point == "/" and mount.kind == "overlay" and mount.options:
            return _parse(mount.options, there, here)
    return None


def _parse(options: str, there: str, here: Path) -> LayerFolders | None:
    upper: list[str] = []
    lowers: list[str] = []
    for option in options.split(","):
        name, _, value = option.partition("=")
        if name == "upperdir":
            upper = [value]
        elif name in ("lowerdir", "lowerdir+"):
            lowers += value.split(":")
    found = [_moved(path, there, here) for path in (*upper, *lowers)]
    if not upper or not lowers or None in found:
        return None
    top, *rest = [path for path in found if path is not None]
    return LayerFolders(top, tuple(rest))


def _moved(path: str, there: str, here: Path) -> Path | None:
    plain = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), path)
    if not plain.startswith(there.rstrip("/") + "/"):
        return None
    return here / plain.removeprefix(there.rstrip("/") + "/")
