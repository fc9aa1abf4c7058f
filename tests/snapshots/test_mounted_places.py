"""Whether a container begins in a folder of its own; what is mounted is tested with an engine."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.snapshots.checkpointer import mounted_places
from holdfast.snapshots.checkpointer.requests import MountedPlaces

NEW_MOUNTS = 0x00020000
"""CLONE_NEWNS (clone(2))."""
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts of one's own need root")


@contextmanager
def in_own_mounts(move: Callable[[int], None], folder: Path) -> Iterator[int]:
    """Yield a process with mounts of its own, after `move` got a folder that was opened before."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            if ctypes.CDLL(None).unshare(NEW_MOUNTS) == 0:
                move(opened)
                os.write(tell, b".")
                signal.pause()
        finally:
            os._exit(1)
    os.close(tell)
    try:
        assert os.read(told, 1) == b"."  # the attack took place
        yield child
    finally:
        os.close(told)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_container_that_begins_in_a_folder_of_the_host_is_found(tmp_path: Path) -> None:
    """A descriptor that an engine left open leads there: /proc/self/fd/N as the folder of an image."""
    with (
        in_own_mounts(os.fchdir, tmp_path) as process,
        pytest.raises(mounted_places.Astray, match="begin in is not in the container"),
    ):
        mounted_places.require(process, MountedPlaces((), ()))


def test_a_folder_of_its_own_is_not_astray(tmp_path: Path) -> None:
    """The same folder, by its name."""
    with in_own_mounts(lambda _: os.chdir(tmp_path), tmp_path) as process:
        mounted_places.require(process, MountedPlaces((), ()))
