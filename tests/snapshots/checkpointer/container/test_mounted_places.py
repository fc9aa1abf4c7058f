"""Whether a container begins in a folder of its own, and what it has mounted is where it was to be."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.snapshots.checkpointer.container import mounted_places
from holdfast.snapshots.checkpointer.wire.requests import MountedPlaces

NEW_MOUNTS = 0x00020000
"""CLONE_NEWNS (clone(2))."""
PRIVATE = 0x44000
"""MS_REC | MS_PRIVATE (mount(2))."""
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


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A process with memory mounted at `there`; `link` leads there, `astray` to a descriptor of /proc."""
    libc = ctypes.CDLL(None)
    (tmp_path / "there").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to("there")
    (tmp_path / "astray").symlink_to("/proc/self/cwd")

    def mount(_: int) -> None:
        os.chdir("/")
        assert libc.mount(b"none", b"/", None, PRIVATE, None) == 0
        assert libc.mount(b"none", bytes(tmp_path / "there"), b"tmpfs", 0, None) == 0

    with in_own_mounts(mount, tmp_path) as process:
        yield process, tmp_path


def test_what_is_mounted_is_found_at_its_path(mounted: tuple[int, Path]) -> None:
    process, folder = mounted
    own, given = (str(folder / "there"),), (str(folder / "there"), str(folder / "link"))
    mounted_places.require(process, MountedPlaces(own, given))


@pytest.mark.parametrize("name", ["other", "link", "link/.", "astray", "missing"])
def test_our_own_are_nowhere_else(mounted: tuple[int, Path], name: str) -> None:
    """A folder without a mount, and a link, even if it leads to the right one."""
    process, folder = mounted
    with pytest.raises(mounted_places.Astray, match=f"{name} does not lead to what is mounted there"):
        mounted_places.require(process, MountedPlaces((f"{folder}/{name}",), ()))


@pytest.mark.parametrize("name", ["other", "astray", "missing"])
def test_chosen_ones_are_nowhere_else(mounted: tuple[int, Path], name: str) -> None:
    """A folder without a mount, and a link of /proc, which is another folder for each process."""
    process, folder = mounted
    with pytest.raises(mounted_places.Astray, match=f"{name} does not lead to what is mounted there"):
        mounted_places.require(process, MountedPlaces((), (f"{folder}/{name}",)))
