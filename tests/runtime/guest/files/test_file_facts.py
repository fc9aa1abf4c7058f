"""Attributes that programs give files: the values taken from a caller, and the shown part of a file's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.guest.files.file_facts import (
    LONGEST_ATTRIBUTES,
    MOST_ATTRIBUTES,
    checked_attributes,
    read_attributes,
    write_attributes,
)


@pytest.mark.parametrize(
    "given",
    [
        [],
        "x",
        {"a": 1},
        {"": "x"},
        {"a b": "x"},
        {"ä": "x"},
        {"a\0": "x"},
        {"a": "ä"},
        {"a": "line\n"},
        {"a": "x" * LONGEST_ATTRIBUTES},
        {str(number): "x" for number in range(MOST_ATTRIBUTES + 1)},
    ],
)
def test_unkeepable_deleted_files_are_refused(given: Any) -> None:
    assert checked_attributes(given) is None


def test_attributes_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    given = {"e2b.author": "Ada Lovelace", "plain": "x=1", "empty": ""}
    assert checked_attributes(given) == given
    with path.open() as opened:
        write_attributes(opened.fileno(), given)
    assert read_attributes(str(path)) == given
    assert os.getxattr(path, "user.plain") == b"x=1"


def test_no_more_than_an_answer_has_room_for_is_read(tmp_path: Path) -> None:
    """Nor a value that is not text; and none of a link, or of a missing file."""
    path = tmp_path / "file"
    path.touch()
    os.setxattr(path, "user.a", b"\xff")
    os.setxattr(path, "user.b", b"x" * 2000)
    os.setxattr(path, "user.c", b"y" * 1500)
    assert set(read_attributes(str(path))) == {"b", "c"}
    os.removexattr(path, "user.c")
    for number in range(MOST_ATTRIBUTES):
        os.setxattr(path, f"user.n{number:02}", b"")
    assert len(read_attributes(str(path))) <= MOST_ATTRIBUTES
    (tmp_path / "link").symlink_to(path)
    assert read_attributes(str(tmp_path / "link")) == {}
    assert read_attributes(str(tmp_path / "none")) == {}
