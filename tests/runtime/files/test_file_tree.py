"""A watcher's results from reports: of an ordinary session in any order, and of a hostile one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from holdfast.errors import ProtocolError
from holdfast.runtime.files import file_tree
from holdfast.runtime.files.file_tree import FileTree, TreeChange, folder_in
from holdfast.runtime.files.file_watch import FileWatch
from holdfast.runtime.files.session_file import SessionFile
from holdfast.runtime.guest.wire.protocol import Frame

FACTS: dict[str, Any] = {
    "name": "x", "kind": "file", "size": 3, "mode": 0o644, "mtime_ns": 1, "uid": 0, "gid": 0, "version": "v",
}  # fmt: skip


def of(name: str, kind: str = "file", version: str = "v") -> SessionFile:
    return SessionFile.of(FACTS | {"name": name, "kind": kind, "version": version})


def short(changes: Iterable[TreeChange]) -> list[tuple[str, str]]:
    return [(change.kind, change.path) for change in changes]


def test_a_folder_goes_with_all_that_is_in_it_from_the_inside_out() -> None:
    """Later reports from inside it are ignored."""
    tree = FileTree()
    list(tree.replace("", [of("a", "folder"), of("b")], more=False))
    list(tree.replace("a", [of("c", "folder")], more=False))
    list(tree.replace("a/c", [of("d"), of("e")], more=False))

    gone = list(tree.change("", "a", None))
    assert [change.kind for change in gone] == ["removed"] * 4
    assert [change.path for change in gone][-2:] == ["a/c", "a"]
    assert list(tree.change("a/c", "d", of("d"))) == []
    assert list(tree.replace("a", [of("late")], more=False)) == []


def test_a_report_in_parts_counts_when_it_is_whole() -> None:
    """Until the last part nothing has changed."""
    tree = FileTree()
    list(tree.replace("", [of("a"), of("b"), of("c")], more=False))

    assert list(tree.replace("", [of("a")], more=True)) == []
    assert short(tree.replace("", [of("c", version="w"), of("d")], more=False)) == [
        ("removed", "b"),
        ("modified", "c"),
        ("created", "d"),
    ]


def test_another_report_of_everything_is_compared_with_the_one_before() -> None:
    """A part of an earlier one whose rest never came does not count."""
    tree, again = FileTree(), FileTree()
    for each, names in ((tree, "ab"), (again, "bc")):
        list(each.replace("", [of("f", "folder"), *map(of, names)], more=False))
        list(each.replace("f", [of("x", version=names)], more=False))
    list(tree.replace("f", [of("lost")], more=True))

    assert sorted(short(tree.forget_all_but(again))) == [
        ("created", "c"),
        ("modified", "f/x"),
        ("removed", "a"),
    ]
    assert list(tree.forget_all_but(again)) == []


def test_times_of_a_folder_do_not_count_as_changes_and_writes_do() -> None:
    """The kernel's event counts where size and times are the same."""
    tree = FileTree()
    list(tree.replace("", [of("f", "folder"), of("a")], more=False))
    assert list(tree.change("", "f", of("f", "folder", "other"))) == []
    assert list(tree.change("", "a", of("a"))) == []
    assert short(tree.change("", "a", of("a"), written=True)) == [("modified", "a")]


def _of_a(**facts: Any) -> SessionFile:
    return SessionFile.of(FACTS | {"name": "a", "version": "1:2:3"} | facts)


@pytest.mark.parametrize(
    ("after", "written", "content", "attributes"),
    [
        (_of_a(version="1:2:4"), True, True, False),
        (_of_a(version="1:2:4", mode=0o600), False, False, True),
        (_of_a(version="1:2:4", mode=0o600), True, True, True),
        (_of_a(version="1:2:4", uid=7), False, False, True),
        (_of_a(version="1:2:4", mtime_ns=9), False, False, False),  # its time was set
        (_of_a(version="1:2:4", mtime_ns=9), None, True, False),  # it may have been written to
        (_of_a(version="1:9:3"), False, True, False),  # another file
        (_of_a(version="1:2:4", size=9), None, True, False),
        (_of_a(version="1:2:4", kind="fifo"), False, True, False),
    ],
)
def test_changed_parts_of_a_file(
    after: SessionFile, written: bool | None, content: bool, attributes: bool
) -> None:
    """Content, attributes, or both, by the differences and the kernel's report."""
    tree = FileTree()
    list(tree.replace("", [_of_a()], more=False))
    (found,) = tree.change("", "a", after, written=written)
    assert found == TreeChange("modified", "a", False, content, attributes)


def test_a_moved_folder_is_one_move() -> None:
    """Its files are removed with it."""
    tree = FileTree()
    list(tree.replace("", [of("f", "folder")], more=False))
    list(tree.replace("f", [of("x")], more=False))
    assert list(tree.change("", "f", None, moved=True)) == [
        TreeChange("removed", "f/x"),
        TreeChange("removed", "f", moved=True),
    ]


@pytest.mark.parametrize("at", ["/etc", "..", "a/../b", "a//b", "a/", ".", "a\0b", "x" * 5000, 5, None])
def test_folders_that_are_not_below_the_root_are_refused(at: object) -> None:
    """As anything else that a session should not report."""
    with pytest.raises(ProtocolError, match=r"^cannot"):
        folder_in({"at": at})


def test_a_session_that_reports_without_end_is_left() -> None:
    """The memory of a watch has a limit; removed files do not count."""
    most = 10 * file_tree._weight(of("x"))
    tree = FileTree(most)
    for number in range(9):
        list(tree.replace("", [of(str(number))], more=True))
    with pytest.raises(ProtocolError, match="too many"):
        list(tree.replace("", [of("last")], more=True))
    tree = FileTree(most)
    with pytest.raises(ProtocolError, match="too many"):  # noqa: PT012  (one of them is)
        for number in range(20):
            list(tree.replace(f"never/whole/{number}", [], more=True))
    tree = FileTree(most)
    for number in range(50):  # what is removed does not count
        list(tree.change("", "x", of("x")))
        list(tree.change("", "x", None))
        list(tree.replace("", [of(str(number))], more=False))


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        ("changes", [{"at": "", "name": "x", "facts": {**FACTS, "name": "y"}}]),
        ("changes", [{"at": "..", "name": "x", "facts": FACTS}]),
        ("changes", [5]),
        ("changes", {"at": ""}),
        ("folder", {"at": "", "files": [{**FACTS, "name": "../x"}], "more": False}),
        ("folder", {"at": "", "files": [FACTS, FACTS], "more": False}),
        ("folder", []),
        ("watched", None),
        ("output", None),
    ],
)
def test_reports_that_make_no_sense_end_the_watch(event: str, payload: object) -> None:
    """With an error about the session."""
    watch = FileWatch.__new__(FileWatch)
    watch._tree, watch._report = FileTree(), None
    with pytest.raises(ProtocolError, match=r"^cannot"):
        watch._take(Frame({"event": event}, json.dumps(payload).encode()))
