"""Several layers as one: the effect on what is below is the same."""

from __future__ import annotations

from holdfast.snapshots.checkpointer.layers import file_entry
from holdfast.snapshots.checkpointer.layers.file_entry import FileEntry
from holdfast.snapshots.checkpointer.layers.merge import merged


def d(path: str, *, opaque: bool = False) -> FileEntry:
    return FileEntry(path, file_entry.DIRECTORY, opaque=opaque)


def f(path: str, offset: int = 0) -> FileEntry:
    return FileEntry(path, file_entry.FILE, offset=offset)


def gone(path: str) -> FileEntry:
    return FileEntry(path, file_entry.WHITEOUT)


def shape(entries: list[FileEntry]) -> list[str]:
    return [f"{item.path}:{item.kind}{':opaque' if item.opaque else ''}" for item in entries]


def test_the_upper_file_wins() -> None:
    """Of two files of one name the upper one is seen."""
    assert [item.offset for item in merged([[f("a", 1)], [f("a", 2)]])] == [2]


def test_directories_are_joined() -> None:
    """What both have in a directory is in it."""
    assert shape(merged([[d("x"), f("x/a")], [d("x"), f("x/b")]])) == ["x:directory", "x/a:file", "x/b:file"]


def test_a_deletion_takes_what_is_below_and_stays() -> None:
    """The image below may also have the name."""
    assert shape(merged([[d("x"), f("x/a")], [gone("x")]])) == ["x:whiteout"]


def test_an_opaque_directory_hides_lower_layers() -> None:
    """A directory that was removed and made again has only what came after."""
    below = [d("x"), f("x/a")]
    assert shape(merged([below, [d("x", opaque=True), f("x/b")]])) == ["x:directory:opaque", "x/b:file"]


def test_a_directory_over_a_deletion_becomes_opaque() -> None:
    """Its layer needed no mark for it, for the deletion below hid everything."""
    assert shape(merged([[gone("x")], [d("x"), f("x/b")]])) == ["x:directory:opaque", "x/b:file"]
    assert shape(merged([[f("x")], [d("x")]])) == ["x:directory:opaque"]


def test_an_opaque_directory_stays_so_under_another() -> None:
    """The image below stays hidden."""
    below = [d("x", opaque=True), f("x/a")]
    assert shape(merged([below, [d("x"), f("x/b")]])) == ["x:directory:opaque", "x/a:file", "x/b:file"]


def test_a_file_replaces_a_directory() -> None:
    """Nothing of the directory remains."""
    assert shape(merged([[d("x"), d("x/y"), f("x/y/a"), f("xy")], [f("x")]])) == ["x:file", "xy:file"]


def test_parents_come_first() -> None:
    """Also where a name sorts before the separator."""
    assert shape(merged([[d("a"), f("a/b"), f("a!"), f("a.b")]])) == [
        "a:directory",
        "a/b:file",
        "a!:file",
        "a.b:file",
    ]
