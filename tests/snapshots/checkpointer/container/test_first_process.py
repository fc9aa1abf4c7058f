"""Whether the first process of a container is ours, by the file it runs."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.base import polling
from holdfast.snapshots.checkpointer.container import first_process
from holdfast.snapshots.checkpointer.ground import folders, tree

NOT_OURS = "first process is not Holdfast's own"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts of one's own need root")


@pytest.fixture
def init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that may be the first process of containers."""
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
    """Whatever it has in it, and although it could become ours: meanwhile it would run."""
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


def test_a_program_that_is_not_what_its_name_says_is_none(init: Path, ours: int) -> None:
    """Someone wrote to the home, or took the name for another file."""
    init.rename(init.with_name("0" * 64))
    with pytest.raises(tree.TargetMismatch, match=NOT_OURS):
        first_process.check(ours)
