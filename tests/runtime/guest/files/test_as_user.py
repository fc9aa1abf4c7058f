"""Files that root makes for a different user belong to that user, and no others do."""

from __future__ import annotations

from pathlib import Path

from holdfast.runtime.guest.files.as_user import make_owned_folders
from holdfast.runtime.guest.files.uploads import Uploads
from holdfast.runtime.guest.identity.account import UserAccount

ROOT = UserAccount("root", 0, 0, "/root", "")
ADA = UserAccount("ada", 1234, 5678, "/home/ada", "")


def _owner(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_uid, found.st_gid


def test_only_folders_that_were_not_there_are_given(tmp_path: Path) -> None:
    """Also where a path leads through `..`, or through a link."""
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    make_owned_folders(str(tmp_path / "there/new/below"), ROOT, ADA)
    make_owned_folders(str(tmp_path / "link/other/../more"), ROOT, ADA)
    make_owned_folders(str(tmp_path / "there"), ROOT, ADA)
    assert _owner(tmp_path / "there") == (0, 0)
    for name in ("new", "new/below", "other", "more"):
        assert _owner(tmp_path / "there" / name) == (1234, 5678)


def test_a_file_is_given_when_it_is_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    """Its set-user-id bit would be the new owner's: it goes."""
    place, given = tmp_path / "file", Uploads()
    place.write_bytes(b"old")
    place.chmod(0o4751)
    given.begin("one", str(place), ROOT, ADA)
    given.write("one", 0, b"new")
    given.finish("one", 3, None, None)
    assert (place.read_bytes(), _owner(place), place.stat().st_mode & 0o7777) == (b"new", (1234, 5678), 0o751)


def test_a_link_in_the_place_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    make_owned_folders(str(tmp_path / "link"), ROOT, ADA)
    assert _owner(tmp_path / "victim") == (0, 0)
