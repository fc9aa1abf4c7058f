"""Requests of clients that search, and that change permissions, at a real supervisor on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.guest.harness import Guest, Refused

from holdfast.runtime.files.session_file import FoundFile, found_in
from holdfast.runtime.guest.defaults import MOST_FOUND


def find(guest: Guest, most: int = 1000, **asked: Any) -> list[FoundFile]:
    frames = guest.ask("file_find", json.dumps(asked).encode(), most=most)
    return [file for frame in frames for file in found_in(frame)]


def test_a_search_is_answered_in_frames_and_ends_at_its_limit(
    guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By names, and by a text of lines; a relative folder begins in the shell's directory."""
    for number in range(30):
        (tmp_path / f"f{number:02}").write_text(f"a\nthe {number}\n")
    everything = find(guest, path=str(tmp_path), name="*")
    assert [each.path for each in everything] == [f"{tmp_path}/f{number:02}" for number in range(30)]
    assert (everything[0].kind, everything[0].size) == ("file", 8)
    found = find(guest, path=str(tmp_path), name="f1?", containing="the 1")
    assert [(each.path[-3:], each.line, each.text) for each in found] == [
        (f"f{number}", 2, f"the {number}") for number in range(10, 20)
    ]
    for most in (1, 7, 30):
        assert len(find(guest, path=str(tmp_path), name="*", most=most)) == most
    assert find(guest, path=str(tmp_path), name="none") == []
    guest.exec(f"cd {tmp_path}")
    assert [each.path for each in find(guest, path=".", name="f00")] == [f"{tmp_path}/f00"]


def test_a_search_of_something_else_is_refused(guest: Guest, tmp_path: Path) -> None:
    """A missing path, one that is not a folder, or a pattern that is not a line of text."""
    (tmp_path / "file").write_text("x")
    for asked, code in (
        ({"path": str(tmp_path / "none"), "name": "*"}, "no_file"),
        ({"path": str(tmp_path / "file"), "name": "*"}, "no_file"),
        ({"path": str(tmp_path)}, "invalid"),
        ({"path": str(tmp_path), "name": "*", "containing": ""}, "invalid"),
        ({"path": str(tmp_path), "name": "*", "containing": "a\nb"}, "invalid"),
        ({"path": str(tmp_path), "name": "*", "containing": 7}, "invalid"),
    ):
        with pytest.raises(Refused) as caught:
            find(guest, **asked)
        assert caught.value.code == code, asked
    with pytest.raises(Refused):
        find(guest, MOST_FOUND + 1, path=str(tmp_path), name="*")


def test_permissions_are_changed_without_the_bits_that_lend_rights(guest: Guest, tmp_path: Path) -> None:
    """A link is followed, as chmod(1) does."""
    file = tmp_path / "file"
    file.write_text("x")
    (tmp_path / "link").symlink_to(file)
    guest.ask("file_mode", json.dumps({"path": str(tmp_path / "link")}).encode(), mode=0o751)
    assert file.stat().st_mode & 0o7777 == 0o751
    for mode in (0o4755, -1, "7"):
        with pytest.raises(Refused):
            guest.ask("file_mode", json.dumps({"path": str(file)}).encode(), mode=mode)
    assert file.stat().st_mode & 0o7777 == 0o751
