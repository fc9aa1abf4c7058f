"""A new session's workspace belongs to the user of the session."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.runtime.guest.identity import workspace
from holdfast.runtime.guest.identity.account import UserAccount

ADA = UserAccount("ada", 1234, 5678, "/home/ada", "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    made.mkdir()
    (made / "inside").touch()
    return made


def test_the_folder_is_given_and_nothing_in_it(folder: Path) -> None:
    workspace.give(folder, ADA)
    assert (folder.stat().st_uid, folder.stat().st_gid) == (1234, 5678)
    assert (folder / "inside").stat().st_uid == 0


def test_one_that_has_another_owner_stays_as_it_is(folder: Path) -> None:
    workspace.give(folder, ADA)
    workspace.give(folder, UserAccount("bob", 4321, 0, "/", ""))
    assert folder.stat().st_uid == 1234


def test_root_needs_no_gift(folder: Path) -> None:
    workspace.give(folder, UserAccount("root", 0, 0, "/root", ""))
    assert folder.stat().st_uid == 0


def test_what_is_mounted_belongs_to_others(folder: Path, tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        f"36 35 98:0 / / rw - ext4 /dev/root rw\n37 36 98:0 /srv {folder} rw - ext4 /dev/root rw\n"
    )
    workspace.give(folder, ADA, table)
    assert folder.stat().st_uid == 0


def test_a_folder_that_stays_writable_below_a_read_only_root_is_given(folder: Path, tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    own = f"37 36 0:70 {folder} {folder} rw - overlay overlay rw\n"
    table.write_text(f"36 35 0:70 / / ro - overlay overlay rw\n{own}")
    workspace.give(folder, ADA, table)
    assert folder.stat().st_uid == 1234


def test_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    for target in (folder, tmp_path / "nowhere"):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        workspace.give(link, ADA)
    assert folder.stat().st_uid == 0


def test_a_shell_is_told_of_only_if_it_is_one() -> None:
    """Users whose program keeps them from logging in have the session's bash in `SHELL`."""
    for entry in Path("/etc/passwd").read_text().splitlines():
        name, *_, shell = entry.split(":")
        told = UserAccount.of(name).environment({})["SHELL"]
        assert told == shell if shell.endswith("sh") else told.endswith("/bash")
