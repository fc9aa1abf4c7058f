"""Tables of files of two snapshots, compared from their common ancestor."""

from pathlib import Path

import pytest

from holdfast.runtime.history.diff.snapshot_diff import (
    DifferencesFromAncestor,
    ImageContents,
    _settle_contents,
    common,
    differences,
    flatten,
)
from holdfast.runtime.history.drift.baseline import Baseline
from holdfast.runtime.history.drift.changed_paths import FileChange, Key, PathEntry
from holdfast.runtime.history.drift.holdings import Holdings

KEY: Key = ("pip", "/site-packages", "toy")


def baseline(*versions: str, **files: PathEntry) -> Baseline:
    """Return a snapshot's record; names of files stand for paths."""
    table = {f"/{name.replace('__', '/')}": entry for name, entry in files.items()}
    return Baseline(None, Holdings(), table, (KEY,) * len(versions), versions)


def new(ctime: int = 1, owner: int = -1) -> PathEntry:
    return PathEntry("new", "f", 1, ctime, owner=owner)


def changed(ctime: int = 1) -> PathEntry:
    return PathEntry("changed", "f", 1, ctime)


GONE = PathEntry("deleted")


def told(before: list[Baseline], after: list[Baseline]) -> dict[str, str]:
    found = differences(flatten(before), flatten(after))
    return {path: one.change for path, one in found.items()}


def test_lines_meet_in_their_first_common_ancestor() -> None:
    """One can be the other's past; a removed snapshot can be the ancestor, but not lie in between."""
    assert common(["a", "x", None], ["b", "x", None]) == "x"
    assert common(["a", "x", None], ["x", None]) == "x"
    assert common(["a", None], ["b", None]) is None
    assert common(["a", "gone"], ["b", "gone"]) == "gone"
    with pytest.raises(LookupError, match="gone"):
        common(["a", "gone"], ["b", None])


def test_two_snapshots_of_one_container() -> None:
    """A file present in both and untouched in between is not a difference."""
    first = baseline(kept=new(), edited=new(), removed=new(), old=changed())
    second = baseline(kept=new(), edited=new(2), old=changed(), made=new(), lost=GONE)
    assert told([first], [second]) == {
        "/edited": "changed",
        "/removed": "deleted",
        "/made": "new",
        "/lost": "deleted",
    }


def test_branches_are_compared_over_their_common_ancestor() -> None:
    """Files of the ancestor that only one branch touched are reported as their state in the other."""
    one = [baseline(shared=new(), edited=changed(), lost=GONE, mine=new())]
    other = [baseline(shared=new(), yours=new())]
    assert told(one, other) == {
        "/edited": "changed",
        "/lost": "new",
        "/mine": "deleted",
        "/yours": "new",
    }
    assert told(other, one) == {"/edited": "changed", "/lost": "deleted", "/mine": "new", "/yours": "deleted"}


def test_several_containers_are_one_table() -> None:
    """Made and deleted is nothing; deleted and made is a change; a folder includes its content."""
    line = [
        baseline(a=new(), b=GONE, d__x=new(), d=PathEntry("new", "d"), c=new()),
        baseline(a=GONE, b=new(2), d=GONE, c=changed(3)),
    ]
    flat = flatten(line)
    assert {path: entry.change for path, entry in flat.table.items()} == {"/b": "changed", "/c": "new"}
    assert told([], line) == {"/b": "changed", "/c": "new"}
    assert told(line, line) == {}
    assert told([baseline(d=PathEntry("deleted"))], [baseline(d__x=changed())])["/d"] == "new"


def test_packages_keep_their_files_and_their_last_version() -> None:
    """Numbers of owners index the joined list."""
    flat = flatten([baseline("1.0", x=new(owner=0)), baseline("2.0", y=new(owner=0)), baseline()])
    assert flat.known() == {KEY: "2.0"}
    assert [entry.owner for entry in flat.table.values()] == [0, 0]
    found = differences(DifferencesFromAncestor({}), flat)
    assert {one.owner for one in found.values()} == {KEY}


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_equal_outcomes_are_not_a_difference(tmp_path: Path) -> None:
    """Contents are compared through the layers; a link in them is not followed, a whiteout hides."""
    base, one, other = (tmp_path / name for name in ("base", "one", "other"))
    for name in ("same", "another", "mode", "dir/base"):
        write(base, name, "base")
    for layer in (one, other):
        write(layer, "same", "now")
        write(layer, "another", layer.name)
        write(layer, "mode", "text")
    write(one, "only", "12345")
    (other / "mode").chmod(0o600)
    write(tmp_path, "outside/only", "host")
    (other / "link").symlink_to(tmp_path / "outside")
    before, after = ImageContents([one, base]), ImageContents([other, base])
    names = ("same", "another", "mode", "dir/base", "link/only")
    found = _settle_contents([FileChange(f"/{name}", "changed", 7) for name in names], before, after)
    assert [(one.path, one.size) for one in found] == [("/another", 5), ("/mode", 4), ("/link/only", 7)]
    made = _settle_contents([FileChange("/only", "new")], after, before)
    assert [(one.path, one.size) for one in made] == [("/only", 5)]
    assert _settle_contents(found, ImageContents([]), ImageContents([tmp_path / "none"])) == found
