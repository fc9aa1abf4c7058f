"""Files as they are described and listed."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from holdfast.errors import InvalidArgument, SessionFileDenied, SessionFileNotFound
from holdfast.runtime.api.session_files import SessionFiles
from holdfast.runtime.e2b import filesystem_service
from holdfast.runtime.e2b.filesystem_service import (
    FolderListing,
    clean,
    described,
    entry,
    make_above,
    moment,
    names_in,
    uploaded_entry,
)
from holdfast.runtime.e2b.folder_watches import events
from holdfast.runtime.files.file_tree import WatchedChange
from holdfast.runtime.files.session_file import Kind, SessionFile


class Numbers:
    def user(self, uid: int) -> str:
        return f"user {uid}"

    def group(self, gid: int) -> str:
        return f"group {gid}"


def told_of(
    kind: Kind = "file", *, name: str = "f", size: int = 3, mode: int = 0o644, **more: Any
) -> SessionFile:
    facts = {"mtime_ns": 0, "uid": 1, "gid": 2, "version": "v", "target": None, **more}
    return SessionFile(name=name, kind=kind, size=size, mode=mode, **facts)


def test_a_file() -> None:
    assert entry("/tmp/f", told_of(), Numbers()) == {
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


def test_links_have_the_type_of_their_target() -> None:
    link = told_of("link", target="../a/./b", mode=0o777)
    told = entry("/tmp/x/l", link, Numbers(), "folder")
    assert (told["type"], told["isSymlink"]) == ("FILE_TYPE_DIRECTORY", True)
    assert told["permissions"] == "lrwxrwxrwx"
    assert told["symlinkTarget"] == "/tmp/x/../a/./b"  # through links `..` is another place: it stays
    assert entry("/l", link, Numbers())["type"] == "FILE_TYPE_SYMLINK"
    assert entry("/l", told_of("link", target="b//./c"), Numbers())["symlinkTarget"] == "/b/c"


@pytest.mark.parametrize(
    ("kind", "letter"), [("folder", "d"), ("fifo", "p"), ("socket", "s"), ("device", "c")]
)
def test_other_kinds(kind: Kind, letter: str) -> None:
    told = entry("/x", told_of(kind, mode=0o4755), Numbers())
    assert told["permissions"] == f"{letter}rwsr-xr-x"
    assert told["mode"] == 0o755
    assert told["type"] == ("FILE_TYPE_DIRECTORY" if kind == "folder" else "FILE_TYPE_FILE")


def test_any_name_can_be_sent() -> None:
    told = entry("/tmp/a\udcff\n", told_of(name="a\udcff\n"), Numbers())
    assert json.dumps(told).encode().decode("ascii")
    assert told["name"] == "a\ufffd\n"
    assert uploaded_entry("/tmp/\udc80") == {"path": "/tmp/\ufffd", "name": "\ufffd", "type": "file"}
    assert entry("/", told_of("folder", name=""), Numbers())["name"] == "/"


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
        (WatchedChange("created", "/w/sub/f", told_of()), ["CREATE", "CHMOD", "WRITE"]),
        (WatchedChange("created", "/w/sub/f", told_of(size=0)), ["CREATE"]),
        (WatchedChange("created", "/w/sub/f", told_of("folder")), ["CREATE"]),
        (WatchedChange("modified", "/w/sub/f", told_of()), ["WRITE"]),
        (WatchedChange("modified", "/w/sub/f", told_of(), content=False, attributes=True), ["CHMOD"]),
        (WatchedChange("modified", "/w/sub/f", told_of(), content=False), ["CHMOD"]),
        (WatchedChange("modified", "/w/sub/f", told_of(), attributes=True), ["WRITE", "CHMOD"]),
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


def of(name: str, kind: Kind = "file") -> SessionFile:
    target = "there" if kind == "link" else None
    return SessionFile(name, kind, 0, 0o644, 0, 0, 0, "v", target)


class Folders:
    """The files of a session whose folders are these; a name that ends with a slash is another folder."""

    def __init__(self, **folders: str) -> None:
        self.folders = {
            f"/{path.replace('__', '/')}".rstrip("/") or "/": names for path, names in folders.items()
        }
        self.looks = 0
        self.made: list[str] = []

    def content(self, path: str, *, attributes: bool = False) -> list[SessionFile]:
        if path not in self.folders:
            raise SessionFileNotFound(f"cannot list {path}: it is gone")
        names = self.folders[path].split()
        kinds: dict[str, Kind] = {"/": "folder", "@": "link"}
        return [of(each.rstrip("/@"), kinds.get(each[-1], "file")) for each in names]

    def stat(self, path: str, *, follow: bool = True) -> SessionFile:
        return self.look(path, follow=follow)[1]

    def make_folder(self, path: str, *, parents: bool = False) -> None:
        self.made.append(path)

    def _requests(self) -> Folders:
        return self

    def look(self, path: str, *, follow: bool = True, attributes: bool = False) -> tuple[str, SessionFile]:
        self.looks += 1
        if path in self.folders:
            return path, of(path.rpartition("/")[2], "folder")
        if "link" in path and not follow:
            return path, of("link", "link")
        if "dead" in path:
            raise SessionFileNotFound("cannot look: it leads nowhere")
        return path, of(path.rpartition("/")[2])


def listed(folders: Folders, path: str, depth: int) -> list[dict[str, Any]]:
    return FolderListing(cast(SessionFiles, folders)).of(path, depth)


def test_each_folder_is_followed_by_its_entries() -> None:
    folders = Folders(a="b/ c/ d", a__b="x/ y", a__b__x="deep")
    for depth, names in ((0, "b c d"), (1, "b c d"), (2, "b x y c d"), (2**32 - 1, "b x deep y c d")):
        assert " ".join(each["name"] for each in listed(folders, "/a", depth)) == names
    # `c` was removed while the list was made; the one that is asked for has to be there.
    assert listed(folders, "/a", 2)[0]["path"] == "/a/b"


def test_only_folders_are_listed() -> None:
    with pytest.raises(InvalidArgument, match="not a directory"):
        listed(Folders(a=""), "/f", 1)


def test_links_are_looked_at_and_not_followed() -> None:
    found = listed(Folders(a="link@ dead@", a__link="in it"), "/a", 9)
    assert [(each["name"], each["type"]) for each in found] == [
        ("link", "FILE_TYPE_DIRECTORY"),
        ("dead", "FILE_TYPE_SYMLINK"),
    ]
    assert described(cast(SessionFiles, Folders()), "/link")["type"] == "FILE_TYPE_FILE"


def test_only_so_many_links_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem_service, "MOST_LINKS", 5)
    folders = Folders(a="link@ " * 20)
    assert len(listed(folders, "/a", 1)) == 20
    assert folders.looks == 1 + 5


def test_a_list_has_only_so_many_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem_service, "MOST_ENTRIES", 100)
    wide = {f"a__{number}": "f " * 50 for number in range(3)}
    folders = Folders(a="0/ 1/ 2/", **wide)
    assert len(listed(folders, "/a", 1)) == 3
    assert len(listed(folders, "/a/1", 1)) == 50
    with pytest.raises(InvalidArgument, match=r"more than 100 entries") as refusal:
        listed(folders, "/a", 2)
    assert refusal.value.hint


def test_their_paths_have_only_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem_service, "MOST_BYTES", 1 << 20)
    assert len(listed(_Endless(), "/d", 500)) == 500
    with pytest.raises(InvalidArgument, match="longer than 1 MiB"):
        listed(_Endless(), "/d", 2**32 - 1)


class _Endless(Folders):
    """Each folder has a folder in it: no file system has that, but a hostile session can claim it."""

    def content(self, path: str, *, attributes: bool = False) -> list[SessionFile]:
        return [of("d", "folder")]

    def look(self, path: str, *, follow: bool = True, attributes: bool = False) -> tuple[str, SessionFile]:
        return path, of("d", "folder")


def test_folders_can_be_nested_deeper_than_calls() -> None:
    deep: dict[str, str] = {"__".join("d" * level): "d/" for level in range(1, 3000)}
    assert len(listed(Folders(**deep), "/d", 2**32 - 1)) == 2999


def test_unreadable_files_are_not_left_out_silently() -> None:
    class Denied(Folders):
        def content(self, path: str, *, attributes: bool = False) -> list[SessionFile]:
            if path.endswith("b"):
                raise SessionFileDenied("cannot list /a/b: permission denied")
            return super().content(path)

    with pytest.raises(SessionFileDenied):
        listed(Denied(a="b/ c"), "/a", 2)


@pytest.mark.parametrize(
    ("path", "made"),
    [("/a/b/c", ["/a/b"]), ("a/b", ["a"]), ("~/x/y", ["~/x"]), ("~/x", []), ("/x", []), ("x", [])],
)
def test_folders_above_a_path(path: str, made: list[str]) -> None:
    folders = Folders()
    make_above(cast(SessionFiles, folders), path)
    assert folders.made == made
