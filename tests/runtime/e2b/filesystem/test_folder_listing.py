"""Lists of folders with levels below them, of sessions that have whatever they like."""

from __future__ import annotations

from typing import Any, cast

import pytest

from holdfast.errors import InvalidArgument, SessionFileDenied, SessionFileNotFound
from holdfast.runtime.api.session_files import SessionFiles
from holdfast.runtime.e2b.filesystem import folder_listing
from holdfast.runtime.e2b.filesystem.folder_listing import FolderListing, described, make_above
from holdfast.runtime.files.session_file import Kind, SessionFile


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


def test_each_folder_is_followed_by_what_is_in_it() -> None:
    folders = Folders(a="b/ c/ d", a__b="x/ y", a__b__x="deep")
    for depth, names in ((0, "b c d"), (1, "b c d"), (2, "b x y c d"), (2**32 - 1, "b x deep y c d")):
        assert " ".join(each["name"] for each in listed(folders, "/a", depth)) == names
    # `c` was removed while the list was made; the one that is asked for has to be there.
    assert listed(folders, "/a", 2)[0]["path"] == "/a/b"


def test_what_is_no_folder_is_not_listed() -> None:
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
    monkeypatch.setattr(folder_listing, "MOST_LINKS", 5)
    folders = Folders(a="link@ " * 20)
    assert len(listed(folders, "/a", 1)) == 20
    assert folders.looks == 1 + 5


def test_a_list_has_only_so_many_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_listing, "MOST_ENTRIES", 100)
    wide = {f"a__{number}": "f " * 50 for number in range(3)}
    folders = Folders(a="0/ 1/ 2/", **wide)
    assert len(listed(folders, "/a", 1)) == 3
    assert len(listed(folders, "/a/1", 1)) == 50
    with pytest.raises(InvalidArgument, match=r"more than 100 entries") as refusal:
        listed(folders, "/a", 2)
    assert refusal.value.hint


def test_their_paths_have_only_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_listing, "MOST_BYTES", 1 << 20)
    assert len(listed(_Endless(), "/d", 500)) == 500
    with pytest.raises(InvalidArgument, match="longer than 1 MiB"):
        listed(_Endless(), "/d", 2**32 - 1)


class _Endless(Folders):
    """Each folder has a folder in it: no file system has that, but a hostile session may say so."""

    def content(self, path: str, *, attributes: bool = False) -> list[SessionFile]:
        return [of("d", "folder")]

    def look(self, path: str, *, follow: bool = True, attributes: bool = False) -> tuple[str, SessionFile]:
        return path, of("d", "folder")


def test_folders_may_be_nested_deeper_than_calls() -> None:
    deep: dict[str, str] = {"__".join("d" * level): "d/" for level in range(1, 3000)}
    assert len(listed(Folders(**deep), "/d", 2**32 - 1)) == 2999


def test_what_may_not_be_read_is_not_left_out_silently() -> None:
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
