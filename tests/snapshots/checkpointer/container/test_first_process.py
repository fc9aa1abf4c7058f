"""The first process of a container: the file that it runs, and the places of its mounts."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.base import polling
from holdfast.snapshots.checkpointer.container import first_process
from holdfast.snapshots.checkpointer.ground import folders, tree
from holdfast.snapshots.checkpointer.wire.requests import MountedPlaces

NOT_OURS = "first process is not Holdfast's own"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts of one's own need root")
NEW_MOUNTS = 0x00020000
"""CLONE_NEWNS (clone(2))."""
PRIVATE = 0x44000
"""MS_REC | MS_PRIVATE (mount(2))."""


@pytest.fixture
def init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that can be the first process of containers."""
    monkeypatch.setattr(folders, "INIT", tmp_path)
    sleep = Path(shutil.which("sleep") or "").resolve()
    place = tmp_path / "image" / hashlib.sha256(sleep.read_bytes()).hexdigest()
    place.parent.mkdir()
    shutil.copy(sleep, place)
    return place


@pytest.fixture
def never_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def sleeps(_: float) -> None:
        raise AssertionError("it is waited for")

    monkeypatch.setattr(first_process, "time", SimpleNamespace(sleep=sleeps, monotonic=time.monotonic))


def running(program: Path) -> Iterator[int]:
    """Yield a process that runs a file of the mounts it has for itself."""
    with subprocess.Popen(["unshare", "--mount", program, "60"]) as process:
        try:
            ours = program.stat()
            assert polling.until(lambda: Path(f"/proc/{process.pid}/exe").stat().st_ino == ours.st_ino, 20)
            yield process.pid
        finally:
            process.kill()


@pytest.fixture
def ours(init: Path) -> Iterator[int]:
    yield from running(init)


@pytest.fixture
def copied(init: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A process that runs another file of the same content, as an image can have it."""
    place = tmp_path_factory.mktemp("image") / init.name
    shutil.copy(init, place)
    yield from running(place)


@pytest.mark.usefixtures("never_waits")
def test_the_program_is_known_by_its_file(ours: int) -> None:
    first_process.check(ours)
    first_process.await_ours(ours)


@pytest.mark.usefixtures("never_waits")
def test_a_file_of_the_container_is_refused_at_once(copied: int) -> None:
    """Whatever its content, and although it could become ours: until then it would run."""
    with pytest.raises(tree.TargetMismatch, match=NOT_OURS):
        first_process.check(copied)
    with pytest.raises(tree.TargetMismatch, match=NOT_OURS):
        first_process.await_ours(copied)


def test_the_engines_own_is_waited_for(init: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs no file of the container, and has some time to start ours."""
    waits: list[float] = []
    clock = SimpleNamespace(sleep=waits.append, monotonic=time.monotonic)
    monkeypatch.setattr(first_process, "time", clock)
    monkeypatch.setattr(first_process, "_runs_inside", lambda _: False)
    monkeypatch.setattr(first_process, "START_LIMIT", 0.2)
    with pytest.raises(tree.TargetMismatch, match=NOT_OURS):
        first_process.await_ours(os.getpid())
    assert waits


def test_a_misnamed_program_is_not_used(init: Path, ours: int) -> None:
    """Someone wrote to the home, or took the name for another file."""
    init.rename(init.with_name("0" * 64))
    with pytest.raises(tree.TargetMismatch, match=NOT_OURS):
        first_process.check(ours)


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
        pytest.raises(first_process.Astray, match="does not exist in the container"),
    ):
        first_process.require_mounted(process, MountedPlaces((), ()))


def test_a_folder_of_its_own_is_not_astray(tmp_path: Path) -> None:
    """The same folder, by its name."""
    with in_own_mounts(lambda _: os.chdir(tmp_path), tmp_path) as process:
        first_process.require_mounted(process, MountedPlaces((), ()))


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


def test_mounts_are_found_at_their_paths(mounted: tuple[int, Path]) -> None:
    process, folder = mounted
    own, given = (str(folder / "there"),), (str(folder / "there"), str(folder / "link"))
    first_process.require_mounted(process, MountedPlaces(own, given))


@pytest.mark.parametrize("name", ["other", "link", "link/.", "astray", "missing"])
def test_our_own_are_nowhere_else(mounted: tuple[int, Path], name: str) -> None:
    """A folder without a mount, and a link, even if it leads to the right one."""
    process, folder = mounted
    with pytest.raises(first_process.Astray, match=f"{name} does not lead to the folder mounted there"):
        first_process.require_mounted(process, MountedPlaces((f"{folder}/{name}",), ()))


@pytest.mark.parametrize("name", ["other", "astray", "missing"])
def test_chosen_ones_are_nowhere_else(mounted: tuple[int, Path], name: str) -> None:
    """A folder without a mount, and a link of /proc, which is another folder for each process."""
    process, folder = mounted
    with pytest.raises(first_process.Astray, match=f"{name} does not lead to the folder mounted there"):
        first_process.require_mounted(process, MountedPlaces((), (f"{folder}/{name}",)))
