"""The difference between a layer and an earlier image's part of it."""

from __future__ import annotations

import itertools
import json
import mmap
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from holdfast.snapshots.checkpointer.layers import earlier_layer, file_entry, scan
from holdfast.snapshots.checkpointer.layers.copy import LayerCopy
from holdfast.snapshots.checkpointer.layers.earlier_layer import EarlierLayer
from holdfast.snapshots.checkpointer.layers.file_entry import FileEntry
from holdfast.snapshots.checkpointer.layers.scan import Identity
from holdfast.snapshots.layer.archive import LayerArchive

PRIVATE = "user.overlay."


class Home:
    """Copies of one layer, each made with the index of the previous one."""

    def __init__(self, folder: Path) -> None:
        self.upper, self.index = folder / "upper", folder / "index.json"
        self.upper.mkdir()
        self._folder = folder
        self._numbers = itertools.count()
        self.copied = 0
        self.archive: LayerArchive
        self.folder: Path

    def keep(self, *mapped: str) -> dict[str, str]:
        """Return the content of a layer on top of the last image: kinds by path, `+` for hiding ones."""
        folder = self.folder = self._folder / f"copy{next(self._numbers)}"
        first = LayerCopy(folder, PRIVATE)
        first.first(self.upper, (), self.index if self.index.exists() else None)
        first.pause()
        last = LayerCopy(folder, PRIVATE)
        last.resume()
        last.last(self.upper, mapped)
        last.save()
        self.copied = last.size
        self.archive = LayerArchive(folder)
        b"".join(self.archive.read())
        entries, facts = file_entry.read(folder / file_entry.ENTRIES)
        (folder / file_entry.INDEX).rename(self.index)
        left = facts[file_entry.LEFT]
        needed = [item for position, item in enumerate(entries) if position not in left]
        return {item.path: item.kind + "+" * item.opaque for item in needed}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setattr(scan, "settled", lambda _identity, least=0: True)
    return Home(tmp_path)


def test_only_changes_are_copied_and_in_the_archive(home: Home) -> None:
    """A change, a new file, a deletion, each with the folders above it."""
    for name in ("same/file", "other/file", "gone/file", "deep/er/file"):
        (home.upper / name).parent.mkdir(parents=True)
        (home.upper / name).write_bytes(b"x" * 100_000)
    everything = home.keep()
    assert len(everything) == 9
    assert (home.keep(), home.copied) == ({}, 0)

    (home.upper / "deep/er/file").write_bytes(b"other")
    (home.upper / "gone/file").unlink()
    (home.upper / "other/new").write_bytes(b"new")
    assert home.keep() == {
        "deep": "directory",
        "deep/er": "directory",
        "deep/er/file": "file",
        "gone": "directory",
        "gone/file": "whiteout",
        "other": "directory",
        "other/new": "file",
    }
    assert home.copied == len(b"othernew")
    assert home.archive.size < 30_000
    assert home.archive.whole > 200_000


def test_a_removed_folder_is_one_deletion(home: Home) -> None:
    (home.upper / "a/b").mkdir(parents=True)
    (home.upper / "a/b/file").touch()
    home.keep()
    (home.upper / "a/b/file").unlink()
    (home.upper / "a/b").rmdir()
    assert home.keep() == {"a": "directory", "a/b": "whiteout"}


def test_a_file_takes_the_place_of_a_folder_and_the_reverse(home: Home) -> None:
    """Nothing is deleted below a file, and a folder hides what is below a file."""
    (home.upper / "a").mkdir()
    (home.upper / "a/file").touch()
    (home.upper / "b").touch()
    home.keep()
    (home.upper / "a/file").unlink()
    (home.upper / "a").rmdir()
    (home.upper / "a").touch()
    (home.upper / "b").unlink()
    (home.upper / "b").mkdir()
    (home.upper / "b/file").touch()
    assert home.keep() == {"a": "file", "b": "directory+", "b/file": "file"}


def test_files_mapped_for_writing_count_as_changed_once_more(home: Home) -> None:
    """After the copy a page that is dirty already changes without a trace, and then the mapping ends."""
    file = home.upper / "mapped"
    file.write_bytes(b"a" * mmap.PAGESIZE)
    os.link(file, home.upper / "other-name")
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as memory:
        memory[0] = ord("b")
        home.keep("mapped")
        before = scan.identify(file.stat())
        memory[0] = ord("c")
    assert scan.identify(file.stat()) == before
    assert home.keep() == {"mapped": "file", "other-name": "file"}
    assert home.copied == mmap.PAGESIZE
    assert home.keep() == {}


@pytest.mark.parametrize("first", ["a", "z"])
def test_all_names_of_a_file_come_together(home: Home, first: str) -> None:
    """A folder is renamed: its file is the same under a new name, its second name as it was."""
    (home.upper / first).mkdir()
    (home.upper / first / "file").write_bytes(b"contents")
    os.link(home.upper / first / "file", home.upper / "name")
    home.keep()
    (home.upper / first).rename(home.upper / "moved")
    assert home.keep() == {first: "whiteout", "moved": "directory", "moved/file": "file", "name": "file"}
    assert home.copied == len(b"contents")


def test_separately_kept_files_are_copied_each_time(home: Home) -> None:
    """All of it is next to an image, whatever is next to earlier images."""
    (home.upper / ".wh.x").write_bytes(b"12345")
    for _ in range(2):
        home.keep()
        assert [(item.path, item.stored) for item in home.archive.apart] == [(".wh.x", 5)]
        assert home.copied == 5


def test_unsettled_pages_are_not_in_the_index(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    (home.upper / "file").write_bytes(b"1")
    monkeypatch.setattr(scan, "settled", lambda _identity, least=0: False)
    home.keep()
    monkeypatch.setattr(scan, "settled", lambda _identity, least=0: True)
    assert home.keep() == {"file": "file"}


def test_unchanged_files_are_neither_examined_nor_written_down(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index of the image below says what they are; only they themselves are looked at, for changes."""
    (home.upper / "d").mkdir()
    for number in range(300):
        (home.upper / f"d/{number}").write_bytes(b"x" * 700)
    home.keep()
    whole = home.archive.whole
    examined: list[str] = []
    describe = scan._describe

    def described(made: FileEntry, *given: Any) -> None:
        examined.append(made.path)
        describe(made, *given)

    monkeypatch.setattr(scan, "_describe", described)
    (home.upper / "d/7").write_bytes(b"y" * 700)
    assert home.keep() == {"d": "directory", "d/7": "file"}
    assert examined == ["d/7"]
    assert home.archive.whole == whole
    for name in (file_entry.ENTRIES, file_entry.FIRST):
        assert (home.folder / name).stat().st_size < 1000


def test_an_index_says_what_an_examination_would_say(home: Home) -> None:
    """Of each kind of file, with its attributes; of what can change unseen it says nothing."""
    home.upper.joinpath("d/in").mkdir(parents=True)
    (home.upper / "d/file").write_bytes(b"x" * 5000)
    (home.upper / "d/file").chmod(0o4751)
    os.setxattr(home.upper / "d/file", "user.note", b"\xff\0a")
    os.setxattr(home.upper / "d/in", f"{PRIVATE}opaque", b"y")
    os.link(home.upper / "d/file", home.upper / "name")
    (home.upper / "link").symlink_to("d/f\udcff")
    os.mkfifo(home.upper / "pipe")
    os.mknod(home.upper / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(home.upper / "gone", stat.S_IFCHR)
    (home.upper / ".wh.x").write_bytes(b"apart")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(home.upper / "socket"))
        home.keep()
        said = EarlierLayer.read(home.index).entries()
        folder = os.open(home.upper, os.O_RDONLY)
        try:
            seen = list(scan.scan(folder, PRIVATE, lambda *_: None, scan.ScanBudget()))
        finally:
            os.close(folder)
    assert said.keys() == {each.entry.path for each in seen} - {".wh.x"}
    for each in seen:
        if each.entry.path in said:
            assert said[each.entry.path] == (each.identity, each.entry)


def test_an_index_of_an_older_version_only_tells_what_changed(home: Home) -> None:
    """It lacks attributes: everything is examined, and what is unchanged is not copied."""
    (home.upper / "file").write_bytes(b"x")
    os.setxattr(home.upper / "file", "user.note", b"1")
    home.keep()
    fields = json.loads(home.index.read_text())
    home.index.write_text(json.dumps({"names": [each[:4] for each in fields["names"]]}))
    assert EarlierLayer.read(home.index).entries() == {}
    assert (home.keep(), home.copied) == ({}, 0)
    assert len(EarlierLayer.read(home.index).entries()) == 1


def names(*items: tuple[FileEntry, Identity]) -> dict[str, tuple[Identity, FileEntry]]:
    return {item.path: (identity, item) for item, identity in items}


def folder(path: str, *, opaque: bool = False) -> FileEntry:
    return FileEntry(path, file_entry.DIRECTORY, opaque=opaque)


def compared(
    path: Path, before: dict[str, tuple[Identity, FileEntry]], now: dict[str, tuple[Identity, FileEntry]]
) -> dict[str, bool]:
    earlier_layer.write_index(path, before, ())
    below = EarlierLayer.read(path)
    below.begin()
    same = {name for name, (identity, item) in now.items() if below.has(item, identity)}
    found = below.difference(now, same)
    return {item.path: item.opaque for at, item in enumerate(found.entries) if at not in found.left}


def test_a_newly_opaque_folder_needs_all_its_entries(tmp_path: Path) -> None:
    """Removed and made again, with a folder moved away and back: the files in that are as they were."""
    file = (FileEntry("d/sub/file", file_entry.FILE), (7,))
    before = names((folder("d"), (1,)), (folder("d/sub"), (2,)), file)
    now = names((folder("d", opaque=True), (3,)), (folder("d/sub"), (4,)), file)
    assert compared(tmp_path / "index", before, now) == {"d": True, "d/sub": False, "d/sub/file": False}


def test_an_opaque_folder_of_before_does_not_hide_the_earlier_image(tmp_path: Path) -> None:
    """Of that, everything in the folder is its own."""
    file = (FileEntry("d/file", file_entry.FILE), (7,))
    before = names((folder("d", opaque=True), (1,)), file)
    now = names((folder("d", opaque=True), (2,)), file, (FileEntry("d/new", file_entry.FILE), (8,)))
    assert compared(tmp_path / "index", before, now) == {"d": False, "d/new": False}


def test_a_folder_over_a_deletion_hides_the_same_entries(tmp_path: Path) -> None:
    before = names((FileEntry("d", file_entry.WHITEOUT), (1,)))
    now = names((folder("d", opaque=True), (2,)))
    assert compared(tmp_path / "index", before, now) == {"d": True}
