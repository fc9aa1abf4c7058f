"""Removal of folders in steps."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.runtime.guest.files import removal


def test_a_folder_goes_with_all_that_is_in_it_and_no_more(tmp_path: Path) -> None:
    """One step for each name; links are removed, not followed."""
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "file").write_text("x")
    (folder / "link").symlink_to(outside)

    steps = list(removal.steps(str(folder), recursive=True, missing_ok=False))

    assert len(steps) == 5
    assert not folder.exists()
    assert (outside / "kept").read_text() == "kept"


def test_a_deep_folder_needs_no_deep_stack(tmp_path: Path) -> None:
    deep = f"{tmp_path}/deep"
    for depth in range(1501):
        os.mkdir(deep + "/d" * depth)  # noqa: PTH102  (a Path of that many parts needs a deep stack)

    assert len(list(removal.steps(deep, recursive=True, missing_ok=False))) == 1501


def test_unrelated_entries_stay(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("x")
    with pytest.raises(OSError, match="not empty"):
        list(removal.steps(str(tmp_path / "folder"), recursive=False, missing_ok=True))
    with pytest.raises(FileNotFoundError):
        list(removal.steps(str(tmp_path / "nothing"), recursive=True, missing_ok=False))

    assert len(list(removal.steps(str(tmp_path / "nothing"), recursive=True, missing_ok=True))) == 1
    assert (tmp_path / "folder" / "file").exists()
