"""A watched capture tells how much memory is written, from the files that CRIU writes anyway."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from holdfast.base.home import Home
from holdfast.runtime.capture import copied_amounts
from holdfast.runtime.operations import step
from holdfast.runtime.operations.context import Context
from holdfast.runtime.operations.step import Step

MIB = 1 << 20


class Watcher:
    """Keeps the steps, and can wait for one."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._came = threading.Condition()

    def __call__(self, step: Step | None) -> None:
        assert step is not None
        with self._came:
            self.steps.append(step)
            self._came.notify_all()

    def until(self, done: int) -> None:
        with self._came:
            assert self._came.wait_for(lambda: any(each.done == done for each in self.steps), 30)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copied_amounts, "PATIENCE", 0.01)
    monkeypatch.setattr(copied_amounts, "INTERVAL", 0.01)


def grow(staging: Path, number: int, size: int) -> None:
    (staging / "images").mkdir(exist_ok=True)
    with (staging / "images" / f"pages-{number}.img").open("ab") as file:
        file.truncate(size)


def looking() -> bool:
    return any(each.name == "written-amounts" for each in threading.enumerate())


@pytest.mark.parametrize("of_call", [False, True], ids=["of the controller", "of the call"])
def test_the_amount_grows_with_the_files(tmp_path: Path, *, of_call: bool) -> None:
    """All files count, an amount is reported once, and never more than there is."""
    watcher = Watcher()
    context = Context(Home.at(tmp_path), watcher=None if of_call else watcher)
    with step.watched(watcher), copied_amounts.shown(context, "work", tmp_path, 8 * MIB):
        watcher.until(0)
        grow(tmp_path, 1, 2 * MIB)
        grow(tmp_path, 2, MIB)
        watcher.until(3)
        grow(tmp_path, 2, 9 * MIB)
        watcher.until(8)
    amounts = [each.done for each in watcher.steps]

    assert len(amounts) == len(set(amounts))
    assert str(watcher.steps[-1]) == "copying the memory of work, MiB (8 of 8)"
    assert not looking()


def test_the_copied_files_are_amounts_as_well(tmp_path: Path) -> None:
    """The checkpointer's copy is measured, from before its file exists."""
    watcher = Watcher()
    context = Context(Home.at(tmp_path), watcher=watcher)
    with copied_amounts.files_shown(context, "work", tmp_path, 5 * MIB):
        watcher.until(0)
        (tmp_path / "layer").mkdir()
        (tmp_path / "layer" / "data").write_bytes(bytes(3 * MIB))
        watcher.until(3)
    assert str(watcher.steps[-1]) == "copying the files of work, MiB (3 of 5)"
    assert not looking()


def test_arriving_memory_is_an_amount_of_the_memory_captured(tmp_path: Path) -> None:
    """A session can have grown beyond its snapshot in the meantime: the amount never exceeds the total."""
    watcher, present = Watcher(), [MIB]
    context = Context(Home.at(tmp_path), watcher=watcher)
    with copied_amounts.arriving_shown(context, "work", lambda: present[0], 6 * MIB):
        watcher.until(1)
        present[0] = 7 * MIB
        watcher.until(6)
    assert str(watcher.steps[-1]) == "waiting for the memory of work, MiB (6 of 6)"
    assert not looking()


@pytest.mark.parametrize(
    ("watcher", "total"), [(None, 8 * MIB), (Watcher(), 0)], ids=["unwatched", "unknown"]
)
def test_unwatched_captures_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watcher: Watcher | None, total: int
) -> None:
    monkeypatch.setattr(threading, "Thread", None)
    with copied_amounts.shown(Context(Home.at(tmp_path), watcher=watcher), "work", tmp_path, total):
        assert not watcher or not watcher.steps


def test_the_looks_end_with_a_capture_that_fails(tmp_path: Path) -> None:
    watcher = Watcher()
    with (
        pytest.raises(ValueError, match="failed"),
        copied_amounts.shown(Context(Home.at(tmp_path), watcher=watcher), "work", tmp_path, MIB),
    ):
        raise ValueError("failed")
    assert not looking()
