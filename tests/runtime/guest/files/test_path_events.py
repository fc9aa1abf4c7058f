"""What events of the kernel mean for paths: renames, folders, and what a list has reported already."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

import pytest

from holdfast.runtime.guest.files import inotify_events as raw
from holdfast.runtime.guest.files import rename_pairs
from holdfast.runtime.guest.files.inotify_events import RawEvent
from holdfast.runtime.guest.files.path_events import (
    FolderAppeared,
    PathChange,
    PathEvents,
    QueueOverflowed,
    RootGone,
    Step,
    WatchesLeft,
)
from holdfast.runtime.guest.files.rename_pairs import REACH, Rename
from holdfast.runtime.guest.files.watch_tree import WatchTree

FOLDER = raw.ISDIR


def record(watch: int, mask: int, cookie: int, name: bytes, pad: int) -> bytes:
    return struct.pack("=iIII", watch, mask, cookie, len(name) + pad) + name + bytes(pad)


def test_events_are_parsed_whatever_their_names() -> None:
    """Padded, without a name, with names that are no UTF-8; positions count from the first byte ever read."""
    data = record(1, raw.CREATE, 0, b"a", 15) + record(2, raw.IGNORED, 0, b"", 0)
    data += record(-1, raw.OVERFLOW, 0, b"", 0) + record(3, raw.MOVED_TO | FOLDER, 9, b"\xff\n", 14)
    found = list(raw.parse(data, 1000))

    assert [(each.watch, each.name, each.cookie, each.folder) for each in found] == [
        (1, "a", 0, False), (2, "", 0, False), (-1, "", 0, False), (3, os.fsdecode(b"\xff\n"), 9, True),
    ]  # fmt: skip
    assert [each.end for each in found] == [1032, 1048, 1064, 1096]
    assert list(raw.parse(b"")) == []


def event(mask: int, name: str = "", *, watch: int = 1, cookie: int = 0, end: int = 10) -> RawEvent:
    return RawEvent(watch, mask, cookie, name, end)


def test_halves_of_a_rename_are_joined_over_others_in_between() -> None:
    source, other = event(raw.MOVED_FROM, "a", cookie=5), event(raw.CREATE, "x")
    target, unmatched = event(raw.MOVED_TO, "b", cookie=5), event(raw.MOVED_TO, "c", cookie=6)

    found, rest = rename_pairs.joined([source, other, target, unmatched], final=False)
    assert (found, rest) == ([Rename(source, target), other, unmatched], [])


def test_a_second_half_is_waited_for_and_what_came_after_with_it() -> None:
    """Until nothing more is read, or too much was."""
    source, other = event(raw.MOVED_FROM, "a", cookie=5), event(raw.CREATE, "x")
    first = event(raw.DELETE, "y")

    assert rename_pairs.joined([first, source, other], final=False) == ([first], [source, other])
    assert rename_pairs.joined([source, other], final=True) == ([source, other], [])
    many = [source, *[other] * (REACH + 1)]
    assert rename_pairs.joined(many, final=False) == (many, [])
    # One that is joined already does not wait a second time.
    pair = event(raw.MOVED_FROM, "p", cookie=1), event(raw.MOVED_TO, "q", cookie=1)
    found, rest = rename_pairs.joined([pair[0], source, pair[1], other], final=False)
    assert (found, rest) == ([Rename(*pair)], [source, other])


def test_a_renamed_folder_takes_along_what_is_below() -> None:
    tree = WatchTree(1)
    for watch, parent, name in ((2, 1, "a"), (3, 2, "b"), (4, 1, "c")):
        tree.place(watch, parent, name)
    assert tree.path(3, "file") == "a/b/file"
    tree.place(2, 4, "d")
    assert (tree.path(3), tree.child(1, "a"), tree.child(4, "d")) == ("c/d/b", None, 2)
    with pytest.raises(ValueError, match="inside itself"):
        tree.place(4, 3, "x")
    assert tree.path(3) == "c/d/b"
    assert sorted(tree.drop(4)) == [2, 3, 4]
    assert (len(tree), 3 in tree, tree.drop(9)) == (1, False, [])


def test_a_place_that_has_another_folder_keeps_it() -> None:
    """The end of the one that was there before comes later."""
    tree = WatchTree(1)
    tree.place(2, 1, "a")
    tree.place(3, 1, "a")
    tree.drop(2)
    assert tree.child(1, "a") == 3


def steps(state: PathEvents, *events: RawEvent | Rename) -> list[Step]:
    def all_of() -> Iterator[Step]:
        for each in events:
            yield from state.feed(each)

    return list(all_of())


def watched(*, recursive: bool = True, only: str | None = None) -> PathEvents:
    tree = WatchTree(1)
    tree.place(2, 1, "dir")
    return PathEvents(tree, recursive=recursive, only=only)


def test_each_event_has_its_meaning() -> None:
    assert steps(
        watched(), event(raw.CREATE, "a"), event(raw.MODIFY, "f", watch=2), event(raw.ATTRIB, "a"),
        event(raw.DELETE, "a"), event(raw.MOVED_TO, "b"), event(raw.MOVED_FROM, "b"),
        event(raw.ATTRIB | FOLDER), event(raw.ATTRIB | FOLDER, watch=2), event(raw.CREATE, "late", watch=7),
        event(raw.CREATE | FOLDER, "d", watch=2),
    ) == [
        PathChange("created", "a"), PathChange("modified", "dir/f"), PathChange("attributes", "a"),
        PathChange("removed", "a"), PathChange("created", "b"), PathChange("removed", "b"),
        PathChange("attributes", "", folder=True),
        PathChange("created", "dir/d", folder=True), FolderAppeared(2, "d", "dir/d"),
    ]  # fmt: skip
    (overflowed,) = steps(watched(), event(raw.OVERFLOW, watch=-1))
    assert isinstance(overflowed, QueueOverflowed)


def test_folders_are_followed_only_if_asked() -> None:
    assert steps(watched(recursive=False), event(raw.CREATE | FOLDER, "d")) == [
        PathChange("created", "d", folder=True)
    ]


def rename(name: str, to: str, *, watch: int = 1, target: int = 1, folder: int = 0, end: int = 10) -> Rename:
    halves = ((raw.MOVED_FROM, name, watch), (raw.MOVED_TO, to, target))
    first, second = (event(mask | folder, each, watch=at, cookie=3, end=end) for mask, each, at in halves)
    return Rename(first, second)


def test_renames_within_out_of_and_into_the_tree() -> None:
    state = watched()
    assert steps(state, rename("a", "b", target=2)) == [PathChange("renamed", "a", to="dir/b")]
    assert steps(state, rename("a", "b", target=9)) == [PathChange("removed", "a")]
    assert steps(state, rename("a", "b", watch=9)) == [PathChange("created", "b")]
    assert steps(state, rename("dir", "new", folder=FOLDER), event(raw.CREATE, "f", watch=2)) == [
        PathChange("renamed", "dir", folder=True, to="new"), FolderAppeared(1, "new", "new"),
        PathChange("created", "new/f"),
    ]  # fmt: skip
    assert steps(state, event(raw.MOVED_FROM | FOLDER, "new")) == [
        WatchesLeft((2,)), PathChange("removed", "new", folder=True)
    ]  # fmt: skip


def test_one_name_is_watched_without_its_neighbours() -> None:
    state = watched(recursive=False, only="file")
    assert steps(
        state, event(raw.MODIFY, "other"), event(raw.MODIFY, "file"), rename("tmp", "file"), rename("x", "y"),
        event(raw.ATTRIB | FOLDER),
    ) == [PathChange("modified", "file"), PathChange("renamed", "tmp", to="file")]  # fmt: skip
    change, gone = steps(state, event(raw.MOVE_SELF))
    assert (change, isinstance(gone, RootGone)) == (PathChange("removed", "file"), True)


def test_the_end_of_the_root_is_the_end_but_not_that_of_a_folder() -> None:
    state = watched()
    assert steps(state, event(raw.DELETE_SELF, watch=2), event(raw.IGNORED, watch=2)) == []
    assert 2 not in state.tree
    change, gone = steps(state, event(raw.DELETE_SELF))
    assert (change, isinstance(gone, RootGone)) == (PathChange("removed", "", folder=True), True)


def test_what_happened_before_the_watch_is_not_reported_but_followed() -> None:
    state = watched()
    state.mute(100)
    assert steps(state, event(raw.CREATE | FOLDER, "d", end=100)) == [FolderAppeared(1, "d", "d")]
    assert steps(state, event(raw.CREATE, "e", end=101)) == [PathChange("created", "e")]


def test_what_a_list_has_reported_is_not_reported_again() -> None:
    """Up to the end of the queue when it was made; what is removed and made again is new."""
    state = watched()
    state.settle([PathChange("created", "a"), PathChange("modified", "m"), PathChange("removed", "r")], 50)
    state.settle([PathChange("renamed", "x", to="y")], 50)
    assert steps(
        state, event(raw.CREATE, "a"), event(raw.MODIFY, "m"), event(raw.MODIFY, "m"), event(raw.DELETE, "r"),
        rename("x", "y"),
    ) == []  # fmt: skip
    again = steps(state, event(raw.DELETE, "a"), event(raw.CREATE, "a"))
    assert again == [PathChange("removed", "a"), PathChange("created", "a")]
    assert steps(state, event(raw.MODIFY, "m", end=51)) == [PathChange("modified", "m")]


def test_half_a_rename_that_a_list_has_reported_is_the_other_half() -> None:
    state = watched()
    state.settle([PathChange("created", "b"), PathChange("removed", "c")], 50)
    assert steps(state, rename("a", "b"), rename("c", "d")) == [
        PathChange("removed", "a"), PathChange("created", "d")
    ]  # fmt: skip
