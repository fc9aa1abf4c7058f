"""What changed between two lists of a folder."""

from __future__ import annotations

import stat

from holdfast.runtime.guest.files import listing_diff
from holdfast.runtime.guest.files.folder_walk import Signature
from holdfast.runtime.guest.files.listing_diff import MAX_MOVED, Listing
from holdfast.runtime.guest.files.path_events import PathChange


def file(inode: int, *, mode: int = 0o644, size: int = 1, modified: int = 5, changed: int = 5) -> Signature:
    return Signature(inode, stat.S_IFREG | mode, 0, 0, size, modified, changed)


def folder(inode: int, *, mode: int = 0o755, changed: int = 5) -> Signature:
    return Signature(inode, stat.S_IFDIR | mode, 0, 0, 4096, changed, changed)


def changes(before: Listing, after: dict[str, Signature]) -> list[PathChange]:
    return list(listing_diff.changes(before, after))


def test_the_same_list_has_no_changes() -> None:
    """A folder's own times change with what is in it, which is reported instead."""
    assert changes({"a": file(1), "d": folder(2)}, {"a": file(1), "d": folder(2, changed=9)}) == []


def test_each_kind_of_change_shows() -> None:
    before: Listing = {
        name: file(number) for number, name in enumerate(("gone", "size", "time", "mode", "link"))
    }
    after = {
        "size": file(1, size=2), "time": file(2, modified=6), "mode": file(3, mode=0o600),
        "link": file(4, changed=6), "new": file(9),
    }  # fmt: skip
    assert changes({**before, "d": folder(7)}, {**after, "d": folder(7, mode=0o700)}) == [
        PathChange("removed", "gone"), PathChange("attributes", "d", folder=True),
        PathChange("attributes", "link"), PathChange("attributes", "mode"),
        PathChange("created", "new"), PathChange("modified", "size"),
        PathChange("modified", "time"),
    ]  # fmt: skip


def test_a_rename_is_recognized_by_what_stays() -> None:
    """Not if another file has the number by now, and not by content alone."""
    assert changes({"a": file(1)}, {"b": file(1, changed=8)}) == [PathChange("renamed", "a", to="b")]
    assert changes({"a": file(1)}, {"b": file(1, size=7)}) == [
        PathChange("removed", "a"), PathChange("created", "b")
    ]  # fmt: skip
    assert changes({"a": file(1)}, {"a": file(1), "b": file(1)}) == [PathChange("created", "b")]


def test_a_renamed_folder_is_one_rename_and_what_changed_in_it() -> None:
    before: Listing = {"a": folder(1), "a/b": folder(2), "a/b/f": file(3), "a/g": file(4)}
    after = {"z": folder(1), "z/b": folder(2), "z/b/f": file(3, size=9), "z/h": file(5)}
    assert changes(before, after) == [
        PathChange("renamed", "a", folder=True, to="z"), PathChange("removed", "z/g"),
        PathChange("modified", "z/b/f"), PathChange("created", "z/h"),
    ]  # fmt: skip


def test_what_is_in_a_removed_folder_is_removed_before_it() -> None:
    assert [change.path for change in changes({"a": folder(1), "a/b": file(2)}, {})] == ["a/b", "a"]


def test_what_replaces_another_is_modified() -> None:
    assert changes({"a": file(1)}, {"a": file(2)}) == [PathChange("modified", "a")]
    assert changes({"a": file(1)}, {"a": folder(1)}) == [PathChange("modified", "a", folder=True)]


def test_what_changed_too_lately_counts_as_modified() -> None:
    """A list that was followed by changes nobody looked at has their names, and no more."""
    listing: Listing = {"a": file(1), "b": file(2), "d": folder(3), "d/f": file(4)}
    assert listing_diff.apply(listing, [
        PathChange("modified", "a"), PathChange("renamed", "b", to="c"), PathChange("created", "n"),
        PathChange("renamed", "d", folder=True, to="e"),
    ])  # fmt: skip
    assert listing == {"a": None, "c": None, "n": None, "e": None, "e/f": file(4)}
    after = {"a": file(1), "c": file(2), "e": folder(3), "e/f": file(4)}
    assert changes(listing, after) == [
        PathChange("removed", "n"), PathChange("modified", "a"), PathChange("modified", "c"),
        PathChange("attributes", "e", folder=True),
    ]  # fmt: skip


def test_many_moved_folders_are_not_searched_for() -> None:
    moved = [PathChange("renamed", f"{number}", folder=True, to="x") for number in range(MAX_MOVED + 1)]
    assert not listing_diff.apply({}, moved)
    assert not listing_diff.apply({}, [PathChange("lost", "", why="overflow")])
    before: Listing = {f"a{number:03}": folder(number) for number in range(MAX_MOVED + 1)}
    after = {f"b{number:03}": folder(number) for number in range(MAX_MOVED + 1)}
    kinds = [change.kind for change in changes(before, after)]
    assert [kinds.count(kind) for kind in ("renamed", "removed", "created")] == [MAX_MOVED, 1, 1]
