"""A disk of some file system, in a file. Knows no engine. Needs root and the `mkfs` of the file system."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

MAKE = {
    "btrfs": ("mkfs.btrfs", "--quiet"),
    "ext4": ("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,nodiscard"),
    "xfs": ("mkfs.xfs", "-q", "-K"),
}
"""The command that makes each file system; where it can, nothing is discarded or left for later."""
PACKAGES = {"btrfs": "btrfs-progs", "ext4": "e2fsprogs", "xfs": "xfsprogs"}
"""The Debian package that has it."""


def make(image: Path, file_system: str, size: int) -> None:
    """Make a file with an empty file system of `size` bytes, which takes what is written to it."""
    with image.open("xb") as file:
        os.truncate(file.fileno(), size)
    run(*MAKE[file_system], str(image))


def mount(image: Path, point: Path, file_system: str) -> None:
    """Mount the file system in a file. A second copy of it can still be mounted in some namespace."""
    options = "loop,nouuid" if file_system == "xfs" else "loop"
    run("mount", "-t", file_system, "-o", options, str(image), str(point))


def run(*command: str) -> None:
    """Run a command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
