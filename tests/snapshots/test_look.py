"""What is told of a tree that stands still, tried on this process: all of it, or that there is more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.snapshots.checkpointer.proc import walk
from holdfast.snapshots.checkpointer.record import look as looking
from holdfast.snapshots.checkpointer.record.look import look


def test_all_descriptors_of_one_process_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session may have more in one process than a survey looks at: none of them goes unjudged."""
    monkeypatch.setattr(walk, "MAX_DESCRIPTORS", 2)
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(5)]
    try:
        found = look([os.getpid()], os.getpid())
    finally:
        for one in opened:
            os.close(one)

    assert set(opened) <= {one["fd"] for one in found["processes"][0]["descriptors"]}
    assert found["left_out"] == 0


def test_descriptors_that_are_not_looked_at_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out is never restored: the judge is told of it."""
    monkeypatch.setattr(looking, "MAX_DESCRIPTORS", 2)

    assert look([os.getpid()], os.getpid())["left_out"] > 0


def test_threads_that_are_not_looked_at_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """So are threads, each of which has rights of its own."""
    monkeypatch.setattr(walk, "MAX_THREADS", 0)

    assert look([os.getpid()], os.getpid())["left_out"] > 0


def test_names_that_are_too_long_together_are_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A long name that is open a hundred thousand times is not told as often."""
    monkeypatch.setattr(looking, "MAX_NAMES", 1000)
    (tmp_path / ("x" * 200)).touch()
    opened = [os.open(tmp_path / ("x" * 200), os.O_RDONLY) for _ in range(10)]
    try:
        found = look([os.getpid()], os.getpid())
    finally:
        for one in opened:
            os.close(one)

    assert found["left_out"] > 0
    assert sum(len(one["what"]) for one in found["processes"][0]["descriptors"]) < 1500
