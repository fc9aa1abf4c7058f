"""Digests of open files, read from the layers of an image."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.runtime.capture import capture_record
from holdfast.snapshots.record import RecordedFile


@pytest.fixture
def layers(tmp_path: Path) -> list[Path]:
    for name in ("upper", "lower"):
        (tmp_path / name / "d").mkdir(parents=True)
    (tmp_path / "upper/d/changed").write_text("new")
    (tmp_path / "lower/d/changed").write_text("old")
    (tmp_path / "lower/d/same").write_text("same")
    return [tmp_path / "upper", tmp_path / "lower"]


def told(layers: list[Path], *paths: str, elsewhere: tuple[str, ...] = ()) -> list[RecordedFile]:
    return capture_record.digests(paths, layers, elsewhere)


def test_the_topmost_layer_with_the_file_counts(layers: list[Path]) -> None:
    """A changed file has its new content, an unchanged one the image's."""
    changed, same = told(layers, "/d/changed", "/d/same")
    (layers[0] / "d/changed").write_text("old")
    assert changed.digest != told(layers, "/d/changed")[0].digest
    assert (changed.size, same.size) == (3, 4)


def test_no_link_is_followed_and_nothing_but_files_is_opened(layers: list[Path], tmp_path: Path) -> None:
    """Links that the session put into its layer are not followed."""
    (tmp_path / "secret").write_text("of the host")
    (layers[0] / "link").symlink_to(tmp_path / "secret")
    (layers[0] / "folder").symlink_to(tmp_path)
    os.mkfifo(layers[0] / "fifo")
    for one in told(layers, "/link", "/folder/secret", "/fifo", "/d/../../secret", "/d"):
        assert one.digest == ""
        assert one.skipped


def test_large_and_distant_files_are_reported_as_skipped(
    layers: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit is never silent."""
    monkeypatch.setattr(capture_record, "MAX_TOTAL", 5)
    changed, same, mounted = told(layers, "/d/changed", "/d/same", "/m/x", elsewhere=("/m",))
    assert changed.digest
    assert same.skipped == "it is too large"
    assert "image" in mounted.skipped
