"""Which files are artifacts by rule, and which are orphans."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.artifacts import generated_files
from holdfast.runtime.history.drift.changed_paths import Change, FileChange
from holdfast.runtime.store.entry import Entry
from holdfast.runtime.task.task_record import FileToReread, TaskArtifact, TaskNote, TaskRecord

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def file(path: str, change: Change = "new", *by: int, folder: bool = False) -> FileChange:
    return FileChange(path, change, 3, None, folder, None, by)


@pytest.mark.parametrize(
    ("globs", "path", "matches"),
    [
        ("dist/*.whl", "/workspace/dist/a.whl", True),
        ("dist/*.whl", "/workspace/dist/deep/a.whl", False),
        ("dist/*.whl", "/srv/dist/a.whl", False),
        ("**/*.csv", "/workspace/a.csv", True),
        ("**/*.csv", "/workspace/x/y/a.csv", True),
        ("/srv/**", "/srv/x/y", True),
        ("a?c", "/workspace/abc", True),
        ("a?c", "/workspace/a/c", False),
        ("a.c", "/workspace/abc", False),
        ("nothing  *.txt", "/workspace/b.txt", True),
    ],
)
def test_patterns_match_as_in_a_shell(globs: str, path: str, matches: bool) -> None:
    found = generated_files.matching([file(path)], generated_files.patterns(globs))
    assert [each.path for each in found] == ([path] if matches else [])


def test_only_files_with_new_content_are_artifacts() -> None:
    wanted = generated_files.patterns("*")
    files = [file("/workspace/a"), file("/workspace/b", "changed"), file("/workspace/c", "deleted")]
    files.append(file("/workspace/d", folder=True))
    assert [each.path[-1] for each in generated_files.matching(files, wanted)] == ["a", "b"]


@pytest.mark.parametrize("globs", ["../*", "a/../../b", " ".join(["x"] * 21)])
def test_patterns_that_lead_out_or_are_too_many_are_refused(globs: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot use"):
        generated_files.patterns(globs)


def test_orphans_are_unaccounted_files() -> None:
    """Neither artifacts, nor what git has, nor what the record names."""
    record = TaskRecord(
        updated=AT,
        by="agent",
        goal="it",
        artifacts=(TaskArtifact(name="a", path="/workspace/a"), TaskArtifact(name="r", path="rel")),
        files=(FileToReread(path="notes/b"),),
        notes=(TaskNote(text="see c.txt.", at=AT, by="agent"),),
    )
    names = ("a", "rel", "notes/b", "c.txt", "src.py", "c.tx", ".git/HEAD", "tmp/out")
    files = [file(f"/workspace/{name}", "new", 3, 7) for name in names]
    files.append(file("/workspace/edited", "changed"))
    found = generated_files.orphans(files, record, {"/workspace/src.py"})
    assert [each.path for each in found] == ["/workspace/c.tx", "/workspace/tmp/out"]
    assert {each.entry for each in found} == {"#7"}


def entry(seq: int, at: float, kind: str, of: str) -> Entry:
    return Entry("a", "work", seq, at, kind, details={"id": of})


RAN = [
    entry(1, 10.0, "command_started", "a"),
    entry(2, 20.0, "command_ended", "a"),
    entry(3, 30.0, "command_started", "b"),
    entry(4, 40.0, "cell_started", "c"),
    entry(5, 45.0, "command_ended", "b"),
]


@pytest.mark.parametrize(
    ("at", "found"),
    [
        (9.995, "#1"),  # the stamp is that of the last tick
        (9.0, "#1"),  # the entry of its start came late
        (5.0, None),
        (15.0, "#1"),
        (25.0, None),
        (35.0, "#3"),
        (39.0, "#3"),
        (41.0, "#4"),
        (50.0, "#4"),  # it still runs
    ],
)
def test_a_file_is_attributed_to_the_command_of_its_time(at: float, found: str | None) -> None:
    assert generated_files.command_at(RAN, at) == found
    assert generated_files.command_at([], at) is None


def test_a_start_whose_entry_came_late_was_there_before_it() -> None:
    """The stamp is the last tick's, when the previous command had not ended yet."""
    late = Entry("a", "work", 3, 20.05, "command_started", details={"id": "b", "not_before": 20.001})
    assert generated_files.command_at([*RAN[:2], late], 19.998) == "#3"
