"""A session is only ended if its copy has every file that its processes need."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.snapshots.checkpointer.layers import keep


@pytest.fixture
def session(tmp_path: Path) -> tuple[Path, Path]:
    """The root of a session and the folder of its layer: `image` is in the image, the rest in the layer."""
    root, upper = tmp_path / "root", tmp_path / "upper"
    for folder in (root, upper):
        (folder / "work" / "inner").mkdir(parents=True)
        (folder / "work" / "file").touch()
    (root / "image").touch()
    return root, upper


def opened(number: int, path: str) -> Any:
    return SimpleNamespace(id=number, reg=SimpleNamespace(name=path), HasField=lambda name: name == "reg")


def check(session: tuple[Path, Path], has: Callable[[str], bool], *paths: str, kept: int = 0) -> None:
    entries = [opened(number, path) for number, path in enumerate(paths, 1)]
    keep.check_copied(*session, entries, [SimpleNamespace(orig_id=kept)], has)


def test_files_of_the_copy_and_of_the_image_are_there(session: tuple[Path, Path]) -> None:
    """So are deleted files, which CRIU keeps itself."""
    check(session, lambda _: True, "/work/file", "work/inner", "/image")
    check(session, {"work", "work/file"}.__contains__, "/work/file", "/work", "/image", "/", "/gone/file")
    check(session, lambda _: False, "/work/file", kept=1)


@pytest.mark.parametrize("path", ["/work/inner", "work/inner", "/work/file"])
def test_uncopied_files_are_named(session: tuple[Path, Path], path: str) -> None:
    with pytest.raises(keep.NotCopied, match=path.strip("/")):
        check(session, {"work"}.__contains__, "/work", path)


def test_names_that_the_engine_leaves_out_are_named(session: tuple[Path, Path]) -> None:
    """An engine that copies the files itself takes them for deletions."""
    entries = [opened(1, "/work/.wh.cache/file"), opened(2, "/work/file")]
    with pytest.raises(keep.NotCopied, match=r"\.wh\.cache"):
        keep.check_copied(session[0], None, entries, [], lambda _: False)
    keep.check_copied(session[0], None, entries[1:], [], lambda _: False)
