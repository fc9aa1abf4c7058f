"""The account that a session is given: its lines, its home and its sudo, whatever the image has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.runtime.guest.identity import made_account
from holdfast.runtime.guest.identity.account import UserAccount
from holdfast.runtime.guest.identity.made_account import CannotMakeAccount, give_workspace

ADA = UserAccount("ada", 1234, 5678, "/home/ada", "")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The files of an image."""
    (tmp_path / "etc").mkdir()
    return tmp_path


def _table(root: Path, name: str) -> str:
    return (root / "etc" / name).read_text()


def test_an_image_without_any_table_gets_them(tmp_path: Path) -> None:
    """With the user, its group and its home, and without a table of passwords."""
    found = made_account.make("user", tmp_path)
    assert (found.uid, found.gid, found.home, found.shell) == (1000, 1000, "/home/user", "/bin/sh")
    assert _table(tmp_path, "passwd") == "user:*:1000:1000::/home/user:/bin/sh\n"
    assert _table(tmp_path, "group") == "user:x:1000:\n"
    assert not (tmp_path / "etc/shadow").exists()
    home = (tmp_path / "home/user").stat()
    assert (home.st_uid, home.st_gid, home.st_mode & 0o777) == (1000, 1000, 0o755)


def test_lines_of_others_stay_and_numbers_are_free_ones(root: Path) -> None:
    """A last line without an end, bytes that are not text, and the modes of tables included."""
    before = b"root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n\xff:x:1001:1::/:/bin/sh"
    (root / "etc/passwd").write_bytes(before)
    (root / "etc/group").write_text("root:x:0:\nnode:x:1000:\nother:x:1002:\n")
    (root / "etc/shadow").write_text("root:*:1::::::\n")
    (root / "etc/shadow").chmod(0o640)
    os.chown(root / "etc/shadow", 0, 42)
    (root / "bin").mkdir()
    (root / "bin/bash").touch()
    found = made_account.make("user", root)
    assert (found.uid, found.gid, found.shell) == (1003, 1003, "/bin/bash")
    assert (root / "etc/passwd").read_bytes() == before + b"\nuser:x:1003:1003::/home/user:/bin/bash\n"
    assert _table(root, "shadow").splitlines()[1].startswith("user:!:")
    shadow = (root / "etc/shadow").stat()
    assert (shadow.st_mode & 0o777, shadow.st_gid) == (0o640, 42)
    assert made_account.make("user", root) == found  # and nothing is added twice
    assert (root / "etc/passwd").read_bytes().count(b"\nuser:") == 1


def test_the_group_of_its_name_is_its_own_unless_that_is_the_group_of_root(root: Path) -> None:
    """A group 0 of the same name is left alone."""
    (root / "etc/group").write_text("user:x:555:\n")
    assert made_account.make("user", root).gid == 555
    assert _table(root, "group") == "user:x:555:\n"
    (root / "etc/group").write_text("other:x:0:\n")
    assert made_account.make("other", root).gid == 1001


def test_sudo_is_allowed_where_the_image_has_rules_for_it(root: Path) -> None:
    """The rule is readable by root and its group only."""
    made_account.make("user", root)
    assert not (root / "etc/sudoers.d").exists()
    (root / "etc/sudoers.d").mkdir()
    made_account.make("user", root)
    rule = root / "etc/sudoers.d/90-holdfast-user"
    assert (rule.read_text(), rule.stat().st_mode & 0o777) == ("user ALL=(ALL:ALL) NOPASSWD: ALL\n", 0o440)


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a:0:0", "a\nroot", "-x", "A", "x" * 33, "\u0661"])
def test_malformed_names_are_refused(root: Path, name: str) -> None:
    """Nothing is written for them."""
    with pytest.raises(CannotMakeAccount, match="name must be"):
        made_account.make(name, root)
    assert list((root / "etc").iterdir()) == []


def test_a_link_in_the_place_of_the_home_is_not_followed(root: Path) -> None:
    """Its target is not given to the account."""
    (root / "home").mkdir()
    (root / "victim").mkdir()
    (root / "home/user").symlink_to(root / "victim")
    made_account.make("user", root)
    assert (root / "victim").stat().st_uid == 0
    assert (root / "home/user").is_symlink()


def test_an_account_of_the_image_stays_and_is_given_no_folder_of_others(root: Path) -> None:
    """Its home belongs to root before and after."""
    line = "user:x:0:0::/etc:/bin/sh\n"
    (root / "etc/passwd").write_text(line.replace(":0:0:", ":7:7:"))
    found = made_account.make("user", root)
    assert (found.uid, found.home) == (7, "/etc")
    assert (root / "etc").stat().st_uid == 0
    assert not (root / "home").exists()


def test_a_table_that_is_a_link_is_replaced_and_its_target_stays(root: Path) -> None:
    """The link's target is not written to."""
    (root / "store").write_text("root:x:0:0::/root:/bin/sh\n")
    (root / "etc/passwd").symlink_to(root / "store")
    made_account.make("user", root)
    assert (root / "store").read_text() == "root:x:0:0::/root:/bin/sh\n"
    assert not (root / "etc/passwd").is_symlink()
    assert len(_table(root, "passwd").splitlines()) == 2


def test_invalid_tables_of_files_are_refused(root: Path) -> None:
    """A FIFO is not waited for, a folder is not a table, and a huge file is not read."""
    place = root / "etc/passwd"
    os.mkfifo(place)
    with pytest.raises(CannotMakeAccount, match="not a file"):
        made_account.make("user", root)
    place.unlink()
    place.mkdir()
    with pytest.raises(CannotMakeAccount, match="not a file"):
        made_account.make("user", root)
    place.rmdir()
    with place.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(CannotMakeAccount, match="not a file"):
        made_account.make("user", root)
    place.unlink()
    place.symlink_to(place)
    with pytest.raises(CannotMakeAccount, match="symbolic links"):
        made_account.make("user", root)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    made.mkdir()
    (made / "inside").touch()
    return made


def test_the_folder_is_given_and_nothing_in_it(folder: Path) -> None:
    """Files in it keep their owner."""
    give_workspace(folder, ADA)
    assert (folder.stat().st_uid, folder.stat().st_gid) == (1234, 5678)
    assert (folder / "inside").stat().st_uid == 0


def test_a_home_of_a_different_owner_stays_as_it_is(folder: Path) -> None:
    """The first owner keeps it."""
    give_workspace(folder, ADA)
    give_workspace(folder, UserAccount("bob", 4321, 0, "/", ""))
    assert folder.stat().st_uid == 1234


def test_root_needs_no_gift(folder: Path) -> None:
    """The folder belongs to root already."""
    give_workspace(folder, UserAccount("root", 0, 0, "/root", ""))
    assert folder.stat().st_uid == 0


def test_mounts_belong_to_others(folder: Path, tmp_path: Path) -> None:
    """A folder of the host keeps its owner."""
    table = tmp_path / "mountinfo"
    table.write_text(
        f"36 35 98:0 / / rw - ext4 /dev/root rw\n37 36 98:0 /srv {folder} rw - ext4 /dev/root rw\n"
    )
    give_workspace(folder, ADA, table)
    assert folder.stat().st_uid == 0


def test_a_folder_that_stays_writable_below_a_read_only_root_is_given(folder: Path, tmp_path: Path) -> None:
    """It is a mount of its own, and still the session's."""
    table = tmp_path / "mountinfo"
    own = f"37 36 0:70 {folder} {folder} rw - overlay overlay rw\n"
    table.write_text(f"36 35 0:70 / / ro - overlay overlay rw\n{own}")
    give_workspace(folder, ADA, table)
    assert folder.stat().st_uid == 1234


def test_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    """Neither to a folder nor to a missing path."""
    link = tmp_path / "link"
    for target in (folder, tmp_path / "nowhere"):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        give_workspace(link, ADA)
    assert folder.stat().st_uid == 0


def test_only_shells_are_reported_as_shells() -> None:
    """Users whose program keeps them from logging in have the session's bash in `SHELL`."""
    for entry in Path("/etc/passwd").read_text().splitlines():
        name, *_, shell = entry.split(":")
        told = UserAccount.of(name).environment({})["SHELL"]
        assert told == shell if shell.endswith("sh") else told.endswith("/bash")
