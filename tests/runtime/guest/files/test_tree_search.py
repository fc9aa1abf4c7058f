"""A search below a folder: its finds, its omissions, and its end."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.guest.files import tree_search
from holdfast.runtime.guest.files.tree_search import LARGEST, PIECE, SearchTooLarge, search


def found(folder: Path, name: str = "*", containing: str | None = None) -> list[dict[str, Any]]:
    text = None if containing is None else containing.encode()
    return [each for each in search(str(folder), name, text) if each is not None]


def names(folder: Path, name: str = "*") -> list[str]:
    return [str(Path(each["path"]).relative_to(folder)) for each in found(folder, name)]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for path, text in {
        "a.py": "one\ntwo\n",
        "src/b.py": "three\n",
        "src/deep/c.txt": "two",
        "src/deep/test_c.py": "",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_names_are_found_in_order(tree: Path) -> None:
    """A pattern is for the last part of a path, or with a slash for all of it."""
    assert names(tree) == ["a.py", "src", "src/b.py", "src/deep", "src/deep/c.txt", "src/deep/test_c.py"]
    assert names(tree, "*.py") == ["a.py", "src/b.py", "src/deep/test_c.py"]
    assert names(tree, "src/*/test_*") == ["src/deep/test_c.py"]
    assert names(tree, "[ab].py") == ["a.py", "src/b.py"]
    assert found(tree, "a.py") == [{"path": f"{tree}/a.py", "kind": stat.S_IFREG, "size": 8}]


def test_lines_are_found_across_the_pieces_that_are_read(tree: Path) -> None:
    """Each with its number; one at the end does not need a newline, and a long one is cut."""
    assert found(tree, containing="two") == [
        {"path": f"{tree}/a.py", "line": 2, "text": "two"},
        {"path": f"{tree}/src/deep/c.txt", "line": 1, "text": "two"},
    ]
    (tree / "big").write_text("x" * (PIECE - 3) + "needle\n" + "y\n" * 5 + "needle")
    assert [(each["line"], each["text"][:3]) for each in found(tree, "big", "needle")] == [
        (1, "xxx"),
        (7, "nee"),
    ]
    assert len(found(tree, "big", "needle")[0]["text"]) == 1000


def test_invalid_text_is_left_out(tree: Path) -> None:
    """Files with NUL bytes, and files that are too large; a pipe is not waited for."""
    (tree / "binary").write_bytes(b"two\0")
    with (tree / "large").open("wb") as large:
        large.write(b"two\n")
        large.truncate(LARGEST + 1)
    os.mkfifo(tree / "pipe")
    assert {each["path"] for each in found(tree, containing="two")} == {
        f"{tree}/a.py",
        f"{tree}/src/deep/c.txt",
    }


def test_no_link_is_followed(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A loop of links ends, and the target of a link is not found through it."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.py").write_text("two")
    (tree / "loop").symlink_to(tree)
    (tree / "out").symlink_to(outside)
    (tree / "link.py").symlink_to(outside / "secret.py")
    assert "secret.py" not in str(found(tree))
    assert "loop" in names(tree)
    assert [Path(each["path"]).name for each in found(tree, containing="two")] == ["a.py", "c.txt"]


def test_a_file_that_becomes_a_link_on_the_way_is_not_read(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at it and its opening someone else puts a link in its place."""
    secret = tree / "secret"
    secret.write_text("two")
    look, swapped = os.lstat, list[str]()

    def swapping(path: str) -> os.stat_result:
        told = look(path)
        if path.endswith("/a.py"):
            Path(path).unlink()
            Path(path).symlink_to(secret)
            swapped.append(path)
        return told

    monkeypatch.setattr(os, "lstat", swapping)
    assert found(tree, "a.py", "two") == []
    assert swapped


def test_names_of_any_bytes_are_found(tree: Path) -> None:
    """As the kernel has them."""
    odd = os.fsdecode(b"odd\xff")
    (tree / odd).write_bytes(b"caf\xe9 two\n")
    assert odd in names(tree)
    assert found(tree, "odd*", "two") == [{"path": f"{tree}/{odd}", "line": 1, "text": "caf\ufffd two"}]


def test_too_much_is_an_error_instead_of_a_part(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of names, and of folders below each other; a search that is ended before is not."""
    monkeypatch.setattr(tree_search, "MOST_LOOKED_AT", 3)
    with pytest.raises(SearchTooLarge):
        found(tree)
    monkeypatch.setattr(tree_search, "MOST_LOOKED_AT", 1000)
    monkeypatch.setattr(tree_search, "DEEPEST", 2)
    with pytest.raises(SearchTooLarge):
        found(tree)
    steps = search(str(tree), "a.py", None)
    assert next(steps)
    steps.close()


def test_a_folder_that_is_not_there_is_an_error(tree: Path) -> None:
    """Unlike one that cannot be read on the way."""
    with pytest.raises(FileNotFoundError):
        found(tree / "none")
    with pytest.raises(NotADirectoryError):
        found(tree / "a.py")
