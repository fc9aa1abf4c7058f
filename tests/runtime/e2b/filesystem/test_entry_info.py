"""What clients of this wire are told of files, whatever a session says about them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.runtime.e2b.filesystem.account_names import names_in
from holdfast.runtime.e2b.filesystem.entry_info import clean, entry, moment, written
from holdfast.runtime.e2b.filesystem.watch_events import events
from holdfast.runtime.files.file_tree import WatchedChange
from holdfast.runtime.files.session_file import Kind, SessionFile


class Numbers:
    def user(self, uid: int) -> str:
        return f"user {uid}"

    def group(self, gid: int) -> str:
        return f"group {gid}"


def of(kind: Kind = "file", *, name: str = "f", size: int = 3, mode: int = 0o644, **more: Any) -> SessionFile:
    facts = {"mtime_ns": 0, "uid": 1, "gid": 2, "version": "v", "target": None, **more}
    return SessionFile(name=name, kind=kind, size=size, mode=mode, **facts)


def test_a_file() -> None:
    assert entry("/tmp/f", of(), Numbers()) == {
        "name": "f",
        "type": "FILE_TYPE_FILE",
        "path": "/tmp/f",
        "size": "3",
        "mode": 0o644,
        "permissions": "-rw-r--r--",
        "owner": "user 1",
        "group": "group 2",
        "modifiedTime": "1970-01-01T00:00:00.000000000Z",
    }


def test_links_have_the_type_of_what_they_lead_to() -> None:
    link = of("link", target="../a/./b", mode=0o777)
    told = entry("/tmp/x/l", link, Numbers(), "folder")
    assert (told["type"], told["isSymlink"]) == ("FILE_TYPE_DIRECTORY", True)
    assert told["permissions"] == "lrwxrwxrwx"
    assert told["symlinkTarget"] == "/tmp/x/../a/./b"  # through links `..` is another place: it stays
    assert entry("/l", link, Numbers())["type"] == "FILE_TYPE_SYMLINK"
    assert entry("/l", of("link", target="b//./c"), Numbers())["symlinkTarget"] == "/b/c"


@pytest.mark.parametrize(
    ("kind", "letter"), [("folder", "d"), ("fifo", "p"), ("socket", "s"), ("device", "c")]
)
def test_other_kinds(kind: Kind, letter: str) -> None:
    told = entry("/x", of(kind, mode=0o4755), Numbers())
    assert told["permissions"] == f"{letter}rwsr-xr-x"
    assert told["mode"] == 0o755
    assert told["type"] == ("FILE_TYPE_DIRECTORY" if kind == "folder" else "FILE_TYPE_FILE")


def test_any_name_can_be_sent() -> None:
    told = entry("/tmp/a\udcff\n", of(name="a\udcff\n"), Numbers())
    assert json.dumps(told).encode().decode("ascii")
    assert told["name"] == "a\ufffd\n"
    assert written("/tmp/\udc80") == {"path": "/tmp/\ufffd", "name": "\ufffd", "type": "file"}
    assert entry("/", of("folder", name=""), Numbers())["name"] == "/"


@pytest.mark.parametrize(
    ("mtime_ns", "text"),
    [
        (1_700_000_000_123_456_789, "2023-11-14T22:13:20.123456789Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (2**62, "2116-02-20T23:53:38.427387904Z"),
        (2**100, "9999-12-31T23:59:59.000000000Z"),
        (-(2**100), "0001-01-01T00:00:00.000000000Z"),
    ],
)
def test_any_time_can_be_sent(mtime_ns: int, text: str) -> None:
    assert moment(mtime_ns) == text


@pytest.mark.parametrize(
    ("path", "cleaned"), [("/a//b/./c/", "/a/b/c"), ("//a", "/a"), ("/", "/"), ("/a/../b/", "/a/../b/")]
)
def test_paths_are_cleaned_where_that_changes_nothing(path: str, cleaned: str) -> None:
    assert clean(path) == cleaned


def test_names_of_a_table() -> None:
    table = b"root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\nagain:x:1000:1::/:\n"
    assert names_in(table) == {0: "root", 1000: "ada"}
    assert names_in(b"users:x:100:\nlast:x:7") == {100: "users", 7: "last"}
    hostile = (
        b"\x00\xff:x:1:\n:x:2:\na b:x:3:\nx:4\n" + b"y" * 33 + b":x:5:\nz:x:99999999999:\n" + b":" * 10_000
    )
    assert names_in(hostile) == {}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (WatchedChange("created", "/w/sub/f", of()), ["CREATE", "CHMOD", "WRITE"]),
        (WatchedChange("created", "/w/sub/f", of(size=0)), ["CREATE"]),
        (WatchedChange("created", "/w/sub/f", of("folder")), ["CREATE"]),
        (WatchedChange("modified", "/w/sub/f", of()), ["WRITE"]),
        (WatchedChange("modified", "/w/sub/f", of(), content=False, attributes=True), ["CHMOD"]),
        (WatchedChange("modified", "/w/sub/f", of(), content=False), ["CHMOD"]),
        (WatchedChange("modified", "/w/sub/f", of(), attributes=True), ["WRITE", "CHMOD"]),
        (WatchedChange("removed", "/w/sub/f"), ["REMOVE"]),
        (WatchedChange("removed", "/w/sub/f", moved=True), ["RENAME"]),
    ],
)
def test_changes_as_events(change: WatchedChange, told: list[str]) -> None:
    found = events(change, "/w")
    assert [(each["name"], each["type"]) for each in found] == [
        ("sub/f", f"EVENT_TYPE_{each}") for each in told
    ]
    with_entry = events(change, "/w", Numbers())
    assert all(("entry" in each) == (change.file is not None) for each in with_entry)


def test_the_watched_folder_itself_and_the_root() -> None:
    assert events(WatchedChange("removed", "/w"), "/w")[0]["name"] == "."
    assert events(WatchedChange("removed", "/f"), "/")[0]["name"] == "f"
