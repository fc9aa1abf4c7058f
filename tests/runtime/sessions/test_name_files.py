from __future__ import annotations

import stat
from pathlib import Path

import pytest

from holdfast.errors import StoreError
from holdfast.runtime.sessions import name_files


def test_names_and_addresses_are_beside_the_shared_folder(tmp_path: Path) -> None:
    """Everybody in the session can read them. They are made again, and addresses come when they are known."""
    shared = tmp_path / "room" / "shared"
    shared.mkdir(parents=True)
    (tmp_path / "room" / "hosts").symlink_to(tmp_path / "elsewhere")

    made = name_files.make(shared, "work")
    inode = made["/etc/hosts"].stat().st_ino
    name_files.add(made["/etc/hosts"], "work", ["172.18.0.2", "fd00::2"])

    assert {place: file.parent for place, file in made.items()} == dict.fromkeys(
        ("/etc/hosts", "/etc/hostname"), shared.parent
    )
    assert [stat.S_IMODE(file.lstat().st_mode) for file in made.values()] == [0o644] * 2
    assert made["/etc/hostname"].read_text() == "work\n"
    lines = made["/etc/hosts"].read_text().splitlines()
    assert (lines[0], lines[-2:]) == ("127.0.0.1\tlocalhost", ["172.18.0.2\twork", "fd00::2\twork"])
    assert made["/etc/hosts"].stat().st_ino == inode  # it is mounted by then
    assert not (tmp_path / "elsewhere").exists()


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "hosts").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match=r"cannot write .*hosts"):
        name_files.add(tmp_path / "hosts", "work", ["172.18.0.2"])


def test_a_container_is_renamed_in_its_own_lines(tmp_path: Path) -> None:
    """Whatever else a user has written stays, byte for byte, and the mounted file is the same."""
    shared = tmp_path / "shared"
    made = name_files.make(shared, "5f1c20a9d3e4")
    hosts = made["/etc/hosts"]
    inode = hosts.stat().st_ino
    name_files.add(hosts, "5f1c20a9d3e4", ["172.18.0.2"])
    name_files.rename(shared, "5f1c20a9d3e4", "work")
    assert hosts.read_text().splitlines()[-1] == "172.18.0.2\twork"
    assert made["/etc/hostname"].read_text() == "work\n"

    own = b"10.0.0.1 m\xfcnchen\x85x\n"
    hosts.write_bytes(hosts.read_bytes() + own)
    made["/etc/hostname"].write_text("mine\n")
    name_files.add(hosts, "5f1c20a9d3e4", ["172.18.0.2", "172.18.0.9"])
    name_files.rename(shared, "5f1c20a9d3e4", "work")
    assert hosts.read_bytes().endswith(b"172.18.0.2\twork\n" + own + b"172.18.0.9\twork\n")
    assert made["/etc/hostname"].read_text() == "mine\n"
    assert hosts.stat().st_ino == inode
