"""A hostile session's statements about its files reach only the folder of the copy."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InvalidArgument, ProtocolError
from holdfast.runtime.files.copy_files import CopyOut
from holdfast.runtime.files.file_requests import FileRequests
from holdfast.runtime.files.local_folder import DEEPEST, stays_below
from holdfast.runtime.files.session_file import SessionFile, listed, place_in
from holdfast.runtime.guest.wire.protocol import Frame

FACTS: dict[str, Any] = {
    "name": "x", "kind": "file", "size": 3, "mode": 0o4755, "mtime_ns": 10**18, "uid": 0, "gid": 0,
    "version": "v",
}  # fmt: skip


class Hostile(FileRequests):
    """Folders by path, and files that all have the same content."""

    def __init__(self, folders: dict[str, list[dict[str, Any]]], content: bytes = b"abc") -> None:
        self.folders = folders
        self.data = content
        self.version = 0
        self.changes = False

    def content(self, path: str, *, attributes: bool = False) -> list[SessionFile]:
        return listed(Frame({}, json.dumps([FACTS | one for one in self.folders[path]]).encode()), set())

    def read(self, path: str, offset: int, length: int, *, follow: bool = True) -> tuple[bytes, int, str]:
        self.version += self.changes
        return self.data[offset : offset + length], len(self.data), f"v{self.version}"


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "../x"}, {"name": "a/b"}, {"name": ".."}, {"name": "."}, {"name": ""}, {"name": "a\0b"},
        {"name": "n" * 256}, {"name": 5}, {"name": "\ud800"}, {"kind": "root"}, {"size": -1}, {"size": 2**63},
        {"mode": "0"}, {"kind": "link"}, {"kind": "link", "target": "t" * 5000},
        {"kind": "link", "target": "\0"},
        {"version": None}, {"mtime_ns": 2.5}, {"uid": -1},
    ],
)  # fmt: skip
def test_facts_that_no_file_has_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match=r"^cannot understand the session"):
        Hostile({"/": [changed]}).content("/")


def test_times_that_64_bits_cannot_hold_are_the_nearest_that_they_can() -> None:
    """A file system can have files of later years, and one of them is not a reason to list none."""
    for told, kept in ((2**64, 2**63 - 1), (-(2**64), -(2**62)), (-1, -1)):
        assert Hostile({"/": [{"mtime_ns": told}]}).content("/")[0].mtime_ns == kept


@pytest.mark.parametrize("path", ["", "relative", "/" + "x" * 5000, "/\0", "/\ud800", 5, None])
def test_paths_that_no_file_has_are_refused(path: object) -> None:
    """Else one of a million characters would be in front of each name that follows."""
    with pytest.raises(ProtocolError, match=r"^cannot understand the session"):
        place_in({"path": path})
    assert place_in({"path": "/a\udcff"}) == "/a\udcff"


def test_lists_that_no_folder_has_are_refused() -> None:
    for payload in (b"{}", b"[5]", b"[", json.dumps([FACTS, FACTS]).encode()):
        with pytest.raises(ProtocolError, match=r"^cannot understand the session"):
            listed(Frame({}, payload), set())
    known = {"x"}
    with pytest.raises(ProtocolError):
        listed(Frame({}, json.dumps([FACTS]).encode()), known)


@pytest.mark.parametrize(
    ("target", "above", "stays"),
    [
        ("file", (), True), ("a/b", (), True), ("./a", (), True), ("../a", ("d",), True),
        ("..", ("d",), True), ("", (), False), ("/etc", (), False), ("..", (), False), ("../a", (), False),
        ("../../a", ("d",), False),
        ("a/../b", ("d",), False), ("a/..", ("d", "e"), False), ("../a/../..", ("d", "e"), False),
    ],
)  # fmt: skip
def test_links_that_lead_out_are_recognized(target: str, above: tuple[str, ...], stays: bool) -> None:
    assert stays_below(target, above) is stays


def test_only_files_folders_and_links_that_stay_are_made(tmp_path: Path) -> None:
    """No right of another user comes along: no setuid, no owner."""
    given = Hostile({
        "/s": [
            {"name": "a"}, {"name": "dir", "kind": "folder"}, {"name": "fifo", "kind": "fifo"},
            {"name": "dev", "kind": "device"}, {"name": "out", "kind": "link", "target": "/etc/passwd"},
            {"name": "in", "kind": "link", "target": "dir/b"}, {"name": "bytes\udcff"},
        ],
        "/s/dir": [{"name": "b"}, {"name": "up", "kind": "link", "target": "../../out"}],
    })  # fmt: skip

    made = CopyOut(given).tree("/s", tmp_path / "copy")

    found = {os.fsencode(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*")}
    assert found == {b"a", b"dir", b"dir/b", b"in", b"bytes\xff"}
    assert (made.files, made.folders, made.links, made.bytes) == (3, 1, 1, 9)
    assert set(made.left_out) == {"/s/fifo", "/s/dev", "/s/out", "/s/dir/up"}
    told = (tmp_path / "copy" / "a").stat()
    assert (told.st_mode & 0o7000, told.st_uid) == (0, os.getuid())


def test_links_that_are_here_already_are_not_followed(tmp_path: Path) -> None:
    """A folder of the session does not go through a link of this machine, a file replaces one."""
    outside, copy = tmp_path / "outside", tmp_path / "copy"
    outside.mkdir()
    (outside / "a").write_text("host")
    copy.mkdir()
    (copy / "dir").symlink_to(outside)
    (copy / "a").symlink_to(outside / "a")
    CopyOut(Hostile({"/s": [{"name": "a"}]})).tree("/s", copy)
    with pytest.raises(OSError, match=r"directory|symbolic"):
        CopyOut(Hostile({"/s": [{"name": "dir", "kind": "folder"}], "/s/dir": [{"name": "a"}]})).tree(
            "/s", copy
        )

    assert (outside / "a").read_text() == "host"
    assert (copy / "a").read_text() == "abc"
    assert not (copy / "a").is_symlink()


def test_a_folder_that_became_a_file_is_not_a_way_out(tmp_path: Path) -> None:
    """The session names one path twice, as a link and as a folder, in two lists."""
    given = Hostile({
        "/s": [{"name": "d", "kind": "folder"}],
        "/s/d": [{"name": "e", "kind": "link", "target": "f"}, {"name": "f", "kind": "folder"}],
        "/s/d/f": [{"name": "x"}],
    })  # fmt: skip
    CopyOut(given).tree("/s", tmp_path / "copy")
    given.folders["/s/d"] = [{"name": "e", "kind": "folder"}]
    given.folders["/s/d/e"] = [{"name": "y"}]
    with pytest.raises(OSError, match=r"directory|symbolic"):
        CopyOut(given).tree("/s", tmp_path / "copy")
    assert not (tmp_path / "copy" / "d" / "f" / "y").exists()


def test_folders_without_end_are_refused(tmp_path: Path) -> None:
    class Endless(Hostile):
        def content(self, path: str, *, attributes: bool = False) -> list[SessionFile]:
            return [SessionFile("d", "folder", 0, 0o755, 0, 0, 0, "v")]

    with pytest.raises(InvalidArgument, match=f"more than {DEEPEST} deep"):
        CopyOut(Endless({})).tree("/s", tmp_path / "copy")


def test_a_file_that_changes_is_named_and_one_that_grows_ends(tmp_path: Path) -> None:
    given = Hostile({"/s": [{"name": "a"}]})
    given.changes = True

    class Growing(Hostile):
        def read(self, path: str, offset: int, length: int, *, follow: bool = True) -> tuple[bytes, int, str]:
            return b"x" * length, 10 + offset, f"v{offset}"

    assert CopyOut(given).tree("/s", tmp_path / "one").changed == []
    growing = CopyOut(Growing({"/s": [{"name": "a"}]}))
    assert growing.tree("/s", tmp_path / "two").bytes == 10

    class Shrinking(Hostile):
        def read(self, path: str, offset: int, length: int, *, follow: bool = True) -> tuple[bytes, int, str]:
            return (b"x" * 5, 10, "v") if offset == 0 else (b"", 5, "w")

    shrinking = CopyOut(Shrinking({"/s": [{"name": "a"}]}))
    assert shrinking.tree("/s", tmp_path / "three").changed == ["/s/a"]
    assert (tmp_path / "three" / "a").read_bytes() == b"x" * 5


def test_zeros_become_holes(tmp_path: Path) -> None:
    CopyOut(Hostile({"/s": [{"name": "a"}]}, bytes(8 << 20))).tree("/s", tmp_path / "copy")
    told = (tmp_path / "copy" / "a").stat()
    assert (told.st_size, told.st_blocks) == (8 << 20, 0)


def test_an_unreadable_file_leaves_no_part_behind(tmp_path: Path) -> None:
    class Failing(Hostile):
        def read(self, path: str, offset: int, length: int, *, follow: bool = True) -> tuple[bytes, int, str]:
            raise ProtocolError("cannot understand the session: a test")

    with pytest.raises(ProtocolError):
        CopyOut(Failing({"/s": [{"name": "a"}]})).tree("/s", tmp_path / "copy")
    assert list((tmp_path / "copy").iterdir()) == []
