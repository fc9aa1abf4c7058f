"""Open files whose folders cannot be made again are found before a capture is accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.snapshots.checkpointer.record import lost_folders


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "srv" / "folder").mkdir(parents=True)
    (tmp_path / "srv" / "file").write_text("")
    (tmp_path / "srv" / "astray").symlink_to("/nowhere")
    (tmp_path / "srv" / "round").symlink_to("round")
    (tmp_path / "srv" / "inside").symlink_to("/srv/folder")
    (tmp_path / "srv" / "outside").symlink_to("../../../../../../srv/folder")
    return tmp_path


@pytest.mark.parametrize(
    "path", ["/held", "/srv/folder/held", "/srv/gone/deep/held", "/srv/inside/held", "/srv/outside/held"]
)
def test_folders_that_exist_or_can_be_made_are_accepted(root: Path, path: str) -> None:
    assert lost_folders.first(root, [path]) is None


@pytest.mark.parametrize("name", ["file", "astray", "round"])
@pytest.mark.parametrize("below", ["", "/deep/deeper"])
def test_a_folder_that_something_else_replaced_is_found(root: Path, name: str, below: str) -> None:
    path = f"/srv/{name}{below}/held"

    assert lost_folders.first(root, ["/srv/folder/other", path, "/srv/gone/held"]) == path
