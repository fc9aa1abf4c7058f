import pytest

from holdfast.runtime.history.drift.changed_paths import (
    Change,
    FileChange,
    PathEntry,
    compare,
    join,
    noise,
    sift,
)
from holdfast.runtime.history.drift.drift_result import collapse

SECOND = 10**9


def entry(
    change: Change = "changed", at: float = 1, kind: str = "f", size: int = 1, owner: int = -1
) -> PathEntry:
    return PathEntry(change, "" if change == "deleted" else kind, size, int(at * SECOND), 0, owner)


def folder(at: float = 1, change: Change = "changed") -> PathEntry:
    return entry(change, at, "d")


def changes_of(found: dict[str, FileChange]) -> dict[str, str]:
    return {path: one.change for path, one in found.items()}


def test_a_new_difference_is_a_change() -> None:
    """Paths that were as in the image before are new, changed or deleted as the engine says."""
    now = {"/w": folder(), "/w/a": entry("new"), "/w/b": entry(), "/w/c": entry("deleted")}

    assert changes_of(compare({}, now)) == {"/w/a": "new", "/w/b": "changed", "/w/c": "deleted"}


def test_an_earlier_difference_counts_if_its_times_changed() -> None:
    """A file in the earlier table is judged by its change time and size, not by the image."""
    before = {
        "/same": entry("new", 5),
        "/again": entry("new", 5),
        "/back": entry("deleted"),
        "/gone": entry("new"),
    }
    now = {"/same": entry("new", 5), "/again": entry("new", 6), "/back": entry("changed", 6)}

    assert changes_of(compare(before, now)) == {"/again": "changed", "/back": "changed", "/gone": "deleted"}


def test_a_deletion_is_reported_once() -> None:
    """Earlier deletions are not reported again, and a deleted folder stands for its content."""
    before = {
        "/old": entry("deleted"),
        "/d": folder(1, "new"),
        "/d/x": entry("new"),
        "/d/e": folder(1, "new"),
    }
    now = {"/old": entry("deleted")}

    found = compare(before, now)
    assert changes_of(found) == {"/d": "deleted"}
    assert found["/d"].folder


def test_folders_are_reported_only_when_new_and_empty() -> None:
    """A changed folder is not reported; a new one is, if it is empty."""
    now = {"/w": folder(), "/w/new": folder(1, "new"), "/w/full": folder(1, "new"), "/w/full/x": entry("new")}

    assert changes_of(compare({}, now)) == {"/w/new": "new", "/w/full/x": "new"}


def test_since_a_time() -> None:
    """With a time, earlier changes are left out; for deleted files, the time of their folder counts."""
    now = {
        "/w": folder(20),
        "/w/early": entry("new", 5),
        "/w/late": entry("new", 15),
        "/w/gone": entry("deleted", 0),
        "/v": folder(5),
        "/v/gone": entry("deleted", 0),
    }

    assert changes_of(compare({}, now, since=10)) == {"/w/late": "new", "/w/gone": "deleted"}


def test_spans_are_joined() -> None:
    """A file made and deleted in between is not a change; a new one stays new; a restored one is changed."""
    earlier = {
        "/a": FileChange("/a", "new"),
        "/b": FileChange("/b", "new"),
        "/c": FileChange("/c", "deleted"),
        "/d": FileChange("/d", "changed"),
    }
    later = {
        "/a": FileChange("/a", "changed"),
        "/b": FileChange("/b", "deleted"),
        "/c": FileChange("/c", "new"),
        "/d": FileChange("/d", "deleted"),
        "/e": FileChange("/e", "new"),
    }

    assert changes_of(join(earlier, later)) == {"/a": "new", "/c": "changed", "/d": "deleted", "/e": "new"}


@pytest.mark.parametrize(
    "path",
    [
        "/var/lib/holdfast/journal/1",
        "/root/.cache/pip/x",
        "/w/__pycache__/a.cpython-313.pyc",
        "/root/.bash_history",
        "/var/lib/apt/lists/x",
        "/tmp/pip-unpack-1/x",
        "/w/node_modules/.bin/tsc",
        "/w/node_modules/.package-lock.json",
    ],
)
def test_noise_is_left_out(path: str) -> None:
    """Caches, histories, databases of package managers and our own state are no one's work."""
    assert noise(path)


@pytest.mark.parametrize(
    "path",
    ["/w/app.py", "/root/.bashrc", "/etc/hosts", "/tmp/x", "/w/cache/a", "/var/log/app.log", "/srv/dev/a"],
)
def test_work_is_not_noise(path: str) -> None:
    """Files that a person could have written by hand are always reported."""
    assert not noise(path)
    assert sift([FileChange(path, "new")]) == ([FileChange(path, "new")], 0)


def test_a_few_files_are_all_listed() -> None:
    """Below the limit, every file has its line."""
    lines = collapse([FileChange("/w/a", "new", 5), FileChange("/w/d/b", "changed")], 10)

    assert [(line.path, line.files) for line in lines] == [("/w/a", 1), ("/w/d/b", 1)]


def test_many_files_become_folders_and_single_edits_stay_visible() -> None:
    """A folder of hundreds is one line with counts and bytes; files elsewhere keep their names."""
    many = [FileChange(f"/w/build/{n // 10}/{n}", "new", 10) for n in range(300)]
    lines = collapse([*many, FileChange("/w/src/app.py", "changed"), FileChange("/etc/hosts", "changed")], 8)

    assert [(line.path, line.new, line.changed, line.size) for line in lines] == [
        ("/etc/hosts", 0, 1, 0),
        ("/w/build/", 300, 0, 3000),
        ("/w/src/app.py", 0, 1, 0),
    ]


def test_the_inside_of_a_repository_is_one_line() -> None:
    """No one reads the objects of git or the files of a virtual environment one by one."""
    lines = collapse([FileChange(f"/w/.git/objects/{n}", "new", 1) for n in range(3)], 20)

    assert [(line.path, line.new) for line in lines] == [("/w/.git/", 3)]


def test_a_limit_of_one_still_says_something() -> None:
    """However small the limit, the number of files is reported."""
    (line,) = collapse([FileChange(f"/{n}/x", "new") for n in range(9)], 1)

    assert (line.path, line.new) == ("/", 9)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (PathEntry("changed", "f", 3, ctime=90 * 10**9, mtime=50 * 10**9), False),
        (PathEntry("changed", "f", 3, ctime=101 * 10**9, mtime=50 * 10**9), True),
        (PathEntry("changed", "f", 3, ctime=90 * 10**9, mtime=90 * 10**9), True),
        (PathEntry("new", "f", 3, ctime=90 * 10**9, mtime=50 * 10**9), True),
        (PathEntry("changed", "f", 3, ctime=90 * 10**9), True),
        (PathEntry("changed", "l", 3, ctime=90 * 10**9, mtime=50 * 10**9), True),
    ],
    ids=["opened by the restore", "changed later", "written meanwhile", "new", "no time known", "a link"],
)
def test_a_restore_that_opens_a_file_does_not_change_it(entry: PathEntry, told: bool) -> None:
    assert bool(compare({}, {"/srv/file": entry}, restored=100.0)) == told
    assert compare({}, {"/srv/file": entry}), "only a restore explains it"
