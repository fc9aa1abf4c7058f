"""Files that were written into a session from this host, and the author named for each."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.runtime.history.drift.authors import attributed, host_copies
from holdfast.runtime.history.drift.changed_paths import FileChange
from holdfast.runtime.history.drift.drift_result import Drift
from holdfast.runtime.history.drift.starting_point import StartingPoint
from holdfast.runtime.store.entry import Entry


def entry(*, host: bool = True, at: float = 110.0, **details: Any) -> Entry:
    return Entry("s", "work", 7, at, "files", "person:ada", host=host, details=details)


def change(path: str, at: float | None = 105.0, by: tuple[int, ...] = (3,)) -> FileChange:
    return FileChange(path, "new", 5, at, by=by)


COPY: dict[str, Any] = {"what": "copied in", "path": "/w/in", "began": 100.0}


@pytest.mark.parametrize(
    ("details", "path", "at", "expected"),
    [
        (COPY, "/w/in", 105.0, "person:ada"),
        (COPY, "/w/in/deep/a.txt", 105.0, "person:ada"),
        (COPY, "/w/inner", 105.0, ""),
        (COPY, "/w/in/a", 90.0, ""),
        (COPY, "/w/in/a", 120.0, ""),
        (COPY, "/w/in/a", None, ""),
        ({**COPY, "path": "in", "place": "/w/in"}, "/w/in/a", 105.0, "person:ada"),
        ({**COPY, "path": "in"}, "/w/in/a", 105.0, ""),
        ({**COPY, "what": "copied out"}, "/w/in", 105.0, ""),
        ({"what": "moved", "path": "/w/old", "to": "/w/in", "began": 100.0}, "/w/in", 105.0, "person:ada"),
        ({"what": "wrote", "path": "/w/in"}, "/w/in", 109.5, "person:ada"),
        ({"what": "wrote", "path": "/w/in", "began": "soon"}, "/w/in", 50.0, ""),
        ({"what": "wrote", "path": 7, "began": 100.0}, "/w/in", 105.0, ""),
    ],
)
def test_a_file_is_of_the_copy_that_wrote_it_when_it_changed(
    details: dict[str, Any], path: str, at: float | None, expected: str
) -> None:
    """At or below its place, and while it wrote; nothing that an entry does not say counts."""
    found = attributed(change(path, at), host_copies([entry(**details)]))
    assert found.brought_by == expected
    assert found.by == (() if expected else (3,)), "a command that ran meanwhile is not its author"


def test_a_session_cannot_name_the_author_of_a_copy() -> None:
    """An entry of its own that looks like the host's has no effect."""
    assert host_copies([entry(host=False, **COPY)]) == []


def test_texts_and_fields_name_outside_authors() -> None:
    (copy,) = host_copies([entry(**COPY)])
    files = tuple(attributed(change(f"/w/in/{name}"), [copy]) for name in "abc")
    drift = Drift("work", StartingPoint("before", 0.0, 0), 200.0, files)
    assert "+ /w/in/a 5 B from outside by person:ada" in drift.text()
    assert "+ /w/in/ 3 files, 15 B from outside by person:ada" in drift.text(1)
    assert [each["brought_by"] for each in drift.as_dict()["files"]] == ["person:ada"] * 3
