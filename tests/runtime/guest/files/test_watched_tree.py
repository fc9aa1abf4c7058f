"""The watched files and the existing ones, after any sequence of changes."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.files.file_tree import FileTree, TreeChange
from holdfast.runtime.files.session_file import listed_in
from holdfast.runtime.guest.files import watched_tree
from holdfast.runtime.guest.files.watched_tree import WatchedTree, WatchLimit
from holdfast.runtime.guest.identity.account import UserAccount

OPENED: list[WatchedTree] = []
"""The trees that a test watches: a user has 128 instances of inotify(7) by default."""


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


class Watcher:
    """Does what the operation and its reader do, without a connection in between."""

    def __init__(self, root: Path, **options: Any) -> None:
        me = UserAccount.of(str(os.getuid()))
        self.watched = WatchedTree(str(root), me, **{"recursive": True, **options})
        OPENED.append(self.watched)
        self.tree = FileTree()
        self.changes: list[TreeChange] = []
        self._walk(self.tree, "")
        self.changes.clear()

    def catch_up(self) -> list[tuple[str, str]]:
        """Take in everything that has happened; return kinds and paths."""
        return [(change.kind, change.path) for change in self.seen()]

    def seen(self) -> list[TreeChange]:
        """Take in everything that has happened; return it."""
        self.changes = []
        while True:
            self.watched.read()
            if self.watched.lost:
                self.watched.restart()
                again = FileTree()
                self._walk(again, "")
                self.changes += self.tree.forget_all_but(again)
                continue
            if not self.watched.pending:
                return self.changes
            for look in self.watched.looks():
                if look is not None:
                    (file,) = listed_in([look.facts], set()) if look.facts else (None,)
                    self.changes += self.tree.change(
                        look.folder, look.name, file, written=look.written, moved=look.moved
                    )
                    if self.watched.is_new(look):
                        self._walk(self.tree, look.path)

    def known(self) -> set[str]:
        return {f"{at}/{name}".lstrip("/") for at, files in self.tree._folders.items() for name in files}

    def _walk(self, tree: FileTree, start: str) -> None:
        for at, facts, more in self.watched.walk(start):
            self.changes += tree.replace(at, listed_in(facts, set()), more=more)


def really(root: Path) -> set[str]:
    return {str(each.relative_to(root)) for each in root.rglob("*")}


def folders(root: Path) -> set[str]:
    inside = (each for each in root.rglob("*") if each.is_dir() and not each.is_symlink())
    return {"", *(str(each.relative_to(root)) for each in inside)}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def test_each_kind_of_change_is_reported_once(root: Path) -> None:
    """Also where one name replaces another, or a folder a file."""
    (root / "kept").write_text("old")
    (root / "folder").mkdir()
    watcher = Watcher(root)
    assert watcher.catch_up() == []

    (root / "kept").write_text("longer than before")
    assert watcher.catch_up() == [("modified", "kept")]
    (root / "folder" / "new").touch()
    assert watcher.catch_up() == [("created", "folder/new")]
    (root / "folder" / "new").rename(root / "moved")
    assert watcher.catch_up() == [("removed", "folder/new"), ("created", "moved")]
    (root / "other").write_text("x")
    (root / "other").replace(root / "kept")
    assert watcher.catch_up() == [("modified", "kept")]
    (root / "kept").chmod(0o600)
    assert watcher.catch_up() == [("modified", "kept")]
    (root / "kept").unlink()
    (root / "kept").mkdir()
    assert watcher.catch_up() == [("removed", "kept"), ("created", "kept")]
    shutil.rmtree(root / "kept")
    (root / "link").symlink_to("/etc")
    assert watcher.catch_up() == [("removed", "kept"), ("created", "link")]


def test_a_write_within_one_tick_of_the_clock_is_seen(root: Path) -> None:
    """Size and times of a file can be as they were: the kernel's event says that it was written to."""
    file = root / "file"
    file.write_bytes(b"a")
    watcher = Watcher(root)
    for number in range(200):
        file.write_bytes(b"%c" % (65 + number % 26))
        assert watcher.catch_up() == [("modified", "file")]


def test_folders_that_arrive_are_watched_with_all_that_is_in_them(root: Path, tmp_path: Path) -> None:
    """They are no longer watched once they have left."""
    (tmp_path / "outside" / "a" / "b").mkdir(parents=True)
    (tmp_path / "outside" / "a" / "b" / "file").touch()
    watcher = Watcher(root)

    (tmp_path / "outside").rename(root / "inside")
    found = ["inside", "inside/a", "inside/a/b", "inside/a/b/file"]
    assert watcher.catch_up() == [("created", path) for path in found]
    (root / "inside" / "a" / "b" / "more").touch()
    assert watcher.catch_up() == [("created", "inside/a/b/more")]
    (root / "inside").rename(tmp_path / "outside")
    assert {kind for kind, _ in watcher.catch_up()} == {"removed"}
    (tmp_path / "outside" / "a" / "unseen").touch()
    assert watcher.catch_up() == []


def test_one_file_is_watched_by_its_name(root: Path) -> None:
    """Even before it exists; other files in its folder are not reported."""
    watcher = Watcher(root, recursive=False, only="file")
    (root / "other").touch()
    assert watcher.catch_up() == []
    (root / "file").touch()
    assert watcher.catch_up() == [("created", "file")]


def test_the_end_of_the_root_is_noticed(root: Path, tmp_path: Path) -> None:
    """Whether it is removed or moved."""
    for act in (lambda: root.rmdir(), lambda: root.rename(tmp_path / "elsewhere")):
        root.mkdir(exist_ok=True)
        watcher = Watcher(root)
        act()
        watcher.catch_up()
        assert watcher.watched.gone


def test_links_lead_nowhere_and_other_file_systems_are_left_out(root: Path, tmp_path: Path) -> None:
    """A link is an entry like a file."""
    (tmp_path / "secret").mkdir()
    (root / "link").symlink_to(tmp_path / "secret")
    watcher = Watcher(root)
    (tmp_path / "secret" / "new").touch()
    assert watcher.catch_up() == []
    assert watcher.known() == {"link"}
    proc = Watcher(Path("/"), recursive=False)
    assert "proc" in proc.known()
    assert list(proc.watched.walk("proc")) == []


def test_too_many_folders_are_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the limit."""
    monkeypatch.setattr(watched_tree, "MAX_FOLDERS", 3)
    for name in "abc":
        (root / name).mkdir()
    with pytest.raises(WatchLimit, match="more than 3 folders"):
        Watcher(root)


class Chaos:
    """Changes a tree at random."""

    def __init__(self, root: Path, seed: int) -> None:
        self._root = root
        self._draw = random.Random(seed)

    def act(self) -> None:
        draw, there = self._draw, self._there()
        place = draw.choice(there)
        folder = place if place.is_dir() and not place.is_symlink() else place.parent
        new = folder / draw.choice("abcde")
        kind = draw.randrange(8)
        try:
            if kind == 0:
                new.mkdir()
            elif kind == 1:
                new.write_text(str(draw.random()))
            elif kind == 2 and place != self._root:
                place.rename(draw.choice([each for each in there if each.is_dir()]) / draw.choice("abcde"))
            elif kind == 3 and place != self._root:
                shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()
            elif kind == 4:
                new.symlink_to(draw.choice(there))
            elif kind == 5 and place != self._root:
                place.rename(self._root / draw.choice("abcde"))
            elif kind == 6:
                (new / "x" / "y").mkdir(parents=True)
            else:
                place.chmod(draw.choice((0o700, 0o755)))
        except OSError:
            pass

    def _there(self) -> list[Path]:
        return [self._root, *sorted(self._root.rglob("*"))]


def _replayed(before: set[str], changes: list[tuple[str, str]]) -> Iterator[str]:
    now = set(before)
    for kind, path in changes:
        assert (path in now) == (kind != "created"), (kind, path)
        (now.discard if kind == "removed" else now.add)(path)
    yield from now


def test_moves_are_distinguished_from_removals(root: Path) -> None:
    """A name that was used again after its file moved away was removed, if that one was."""
    (root / "kept").touch()
    watcher = Watcher(root)
    (root / "kept").rename(root / "other")
    assert watcher.seen() == [TreeChange("removed", "kept", moved=True), TreeChange("created", "other")]
    (root / "other").rename(root.parent / "outside")
    assert watcher.seen() == [TreeChange("removed", "other", moved=True)]
    (root / "again").touch()
    watcher.seen()
    (root / "again").rename(root / "third")
    (root / "again").touch()
    (root / "again").unlink()
    assert TreeChange("removed", "again") in watcher.seen()


def test_changed_rights_differ_from_changed_content(root: Path) -> None:
    """A change of the mode, of the times and of the content are three kinds of change."""
    (root / "kept").touch()
    watcher = Watcher(root)
    (root / "kept").chmod(0o600)
    assert watcher.seen() == [TreeChange("modified", "kept", content=False, attributes=True)]
    os.utime(root / "kept", (5, 5))
    assert watcher.seen() == [TreeChange("modified", "kept", content=False)]
    (root / "kept").write_text("other")
    assert watcher.seen() == [TreeChange("modified", "kept")]


@pytest.mark.parametrize("seed", range(60))
def test_after_any_changes_the_tree_equals_the_folder(root: Path, seed: int) -> None:
    """And the changes that were reported lead from one to the other, each possible in its turn."""
    chaos, draw = Chaos(root, seed), random.Random(-seed)
    for _ in range(30):
        chaos.act()
    watcher = Watcher(root)
    assert watcher.known() == really(root)
    for _ in range(25):
        before = watcher.known()
        for _ in range(draw.choice((1, 1, 2, 5, 40))):
            chaos.act()
        changes = watcher.catch_up()
        assert watcher.known() == really(root)
        assert set(_replayed(before, changes)) == really(root)
        assert set(watcher.watched._numbers) == folders(root)
        inside = {
            f"{at}/{name}".lstrip("/") for at, names in watcher.watched._inside.items() for name in names
        }
        assert inside == folders(root) - {""}
        assert {number: path for path, number in watcher.watched._numbers.items()} == watcher.watched._paths


@pytest.mark.parametrize("seed", range(10))
def test_changes_while_they_are_looked_at_are_not_lost(
    root: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two steps of a look or a walk, more changes."""
    monkeypatch.setattr(watched_tree, "PER_TURN", 2)
    chaos = Chaos(root, seed)
    for _ in range(30):
        chaos.act()
    watcher = Watcher(root)
    left = 400

    def during(this: Any, *args: Any) -> Any:
        nonlocal left
        if left:
            left -= 1
            chaos.act()
        return opened(this, *args)

    opened = WatchedTree._open
    monkeypatch.setattr(WatchedTree, "_open", during)
    for _ in range(40):
        chaos.act()
        watcher.catch_up()
    left = 0
    watcher.catch_up()
    assert watcher.known() == really(root)
    assert set(watcher.watched._numbers) == folders(root)


def test_events_that_the_kernel_dropped_are_made_up_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tree is walked again, once, and then agrees with the disk."""
    watcher, begun = Watcher(root), list[WatchedTree]()
    restart = WatchedTree.restart

    def again(this: WatchedTree) -> None:
        begun.append(this)
        restart(this)

    monkeypatch.setattr(WatchedTree, "restart", again)
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for number in range(limit // 2 + 100):
        name = root / f"{number % 50}"
        name.touch()
        name.unlink()
    (root / "last").touch()
    watcher.catch_up()
    assert watcher.known() == really(root) == {"last"}
    assert begun == [watcher.watched]
