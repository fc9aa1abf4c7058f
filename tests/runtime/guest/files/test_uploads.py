"""Files on their way into a session: whole or not there, however often a call is repeated."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.runtime.guest.files import uploads
from holdfast.runtime.guest.files.uploads import NotWritable, Uploads
from holdfast.runtime.guest.identity.account import UserAccount


@pytest.fixture
def account() -> UserAccount:
    return UserAccount.of(None)


def _written(given: Uploads, id_: str, path: Path, data: bytes, account: UserAccount) -> None:
    given.begin(id_, str(path), account)
    given.write(id_, 0, data)
    given.finish(id_, len(data), None, None)


def test_a_file_appears_when_it_is_whole(tmp_path: Path, account: UserAccount) -> None:
    """Parts come in any order and more than once."""
    given, path = Uploads(), tmp_path / "file"
    for _ in range(2):
        given.begin("one", str(path), account)
    for offset, part in ((4, b"last"), (0, b"firs"), (4, b"last")):
        given.write("one", offset, part)
        assert not path.exists()
    for _ in range(2):
        given.finish("one", 8, 0o750, 5 * 10**9)
    given.write("one", 0, b"late")

    told = path.stat()
    assert path.read_bytes() == b"firslast"
    assert (told.st_mode & 0o7777, told.st_mtime_ns) == (0o750, 5 * 10**9)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_of_which_parts_are_missing_replaces_nothing(tmp_path: Path, account: UserAccount) -> None:
    given, path = Uploads(), tmp_path / "file"
    path.write_bytes(b"old")
    given.begin("one", str(path), account)
    given.write("one", 0, b"new content")
    with pytest.raises(NotWritable, match="missing"):
        given.finish("one", 100, None, None)
    given.abandon("one")
    given.abandon("one")

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(LookupError):
        given.write("one", 0, b"more")


def test_a_replaced_file_keeps_its_mode_and_a_link_its_target(tmp_path: Path, account: UserAccount) -> None:
    script, link = tmp_path / "script", tmp_path / "link"
    script.write_bytes(b"old")
    script.chmod(0o741)
    link.symlink_to("script")

    _written(Uploads(), "one", link, b"new", account)

    assert link.is_symlink()
    assert (script.read_bytes(), script.stat().st_mode & 0o7777) == (b"new", 0o741)


@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_nothing_but_a_file_is_replaced(tmp_path: Path, account: UserAccount, kind: str) -> None:
    path = tmp_path / "place"
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    with pytest.raises(NotWritable):
        Uploads().begin("one", str(path), account)
    given, late = Uploads(), tmp_path / "late"
    given.begin("two", str(late), account)
    late.mkdir() if kind == "folder" else os.mkfifo(late)
    with pytest.raises(NotWritable):
        given.finish("two", 0, None, None)


def test_a_part_that_was_swapped_for_a_link_is_not_followed(tmp_path: Path, account: UserAccount) -> None:
    given, victim = Uploads(), tmp_path / "victim"
    victim.write_bytes(b"untouched")
    given.begin("one", str(tmp_path / "file"), account)
    (part,) = tmp_path.glob(".*.part")
    part.unlink()
    part.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic"):
        given.write("one", 0, b"changed")
    with pytest.raises(OSError, match="symbolic"):
        given.finish("one", 9, None, None)

    assert victim.read_bytes() == b"untouched"


def test_files_that_were_left_behind_make_room(tmp_path: Path, account: UserAccount) -> None:
    """The oldest go first."""
    given = Uploads()
    for number in range(uploads.MAX_OPEN + 3):
        given.begin(f"id{number}", str(tmp_path / f"file{number}"), account)

    assert len(list(tmp_path.iterdir())) == uploads.MAX_OPEN
    with pytest.raises(LookupError):
        given.write("id2", 0, b"x")
    given.write("id3", 0, b"x")
