"""Gives restored processes the login uid that a new session of this machine has, whatever their images say.

The kernel's audit log names processes by it (/proc/PID/loginuid): one from an image would put what a session
does under the name of a person. This process has the same one as every container of this engine, and what
CRIU makes inherits it, unless its image names another.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.procfs import bounded
from holdfast.snapshots.checkpointer.criu import criu_images
from holdfast.snapshots.checkpointer.criu.source import ImageFolder

UNSET = 2**32 - 1
_DIGITS = 32


def forget(images: Path, source: ImageFolder) -> None:
    """Take the login uid out of the images in a scratch folder, `source`, unless none is set there and here.

    Images are replaced, not changed: they share their inodes with the kept snapshot.
    """
    own = _own()
    for name in source.numbered("core"):
        said = [core.tc.loginuid for core in source.messages(name) if core.tc.HasField("loginuid")]
        if any((own, one) != (UNSET, UNSET) for one in said):
            path = images / f"{name}.img"
            magic, found = criu_images.read(path)
            for core in found:
                core.tc.ClearField("loginuid")
            path.unlink()
            criu_images.write(path, magic, found)


def _own() -> int:
    """Return that of this process; a kernel without audit has none."""
    try:
        return int(bounded.read(Path("/proc/self/loginuid"), _DIGITS))
    except (OSError, ValueError):
        return UNSET
