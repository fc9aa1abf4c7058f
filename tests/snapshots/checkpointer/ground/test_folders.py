"""The checkpointer's folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.snapshots.checkpointer.ground import folders


def test_leftovers_of_a_killed_restore_are_removed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that a restore could still use stays; an old one goes."""
    monkeypatch.setattr(folders, "STATE", tmp_path)
    folders.create_scratch("aaaaaaaaaaaa")
    old = folders.create_scratch("bbbbbbbbbbbb")
    used = folders.create_scratch("cccccccccccc")
    descriptor = folders.use_scratch(used)
    for folder in (old, used):
        os.utime(folder, (0, 0))

    folders.discard_old_scratch()

    assert {folder.name for folder in (tmp_path / "scratch").iterdir()} == {"aaaaaaaaaaaa", "cccccccccccc"}
    os.close(descriptor)
    folders.discard_old_scratch()
    assert {folder.name for folder in (tmp_path / "scratch").iterdir()} == {"aaaaaaaaaaaa"}


def test_removing_nothing_is_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new state directory does not have such a folder."""
    monkeypatch.setattr(folders, "STATE", tmp_path)

    folders.discard_old_scratch()
    folders.discard_scratch("aaaaaaaaaaaa")
