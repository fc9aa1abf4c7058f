"""Labels of sessions: valid labels, and the sessions they select."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.sessions import session_labels as labels


def test_labels_are_a_mapping_or_texts() -> None:
    """Both forms are equal; a value can have any character of a line, `=` included."""
    assert labels.parse(["team=a", "ci/run=1=2", "empty="]) == {"team": "a", "ci/run": "1=2", "empty": ""}
    assert labels.parse({"team": "ü b"}) == {"team": "ü b"}
    assert labels.parse({}) == {}


@pytest.mark.parametrize(
    "given",
    [
        "team=a",
        ["team"],
        ["=a"],
        [3],
        {"": "a"},
        {"a b": "c"},
        {".a": "b"},
        {"a" * 64: "b"},
        {"a": "b" * 201},
        {"a": "two\nlines"},
        {"a": "\x1b[2J"},
        {"a": 1},
        {1: "a"},
        {"\u0661": "a"},
        {f"k{number}": "" for number in range(51)},
    ],
)
def test_invalid_labels_are_refused(given: Any) -> None:
    """Characters that would confuse a list, a terminal or a query."""
    with pytest.raises(InvalidArgument, match="label"):
        labels.parse(given)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (None, True),
        ([], True),
        (["team=a"], True),
        (["team"], True),
        ({"team": None, "run": "7"}, True),
        (["team=b"], False),
        (["team=a", "other"], False),
        (["team="], False),
        ({"run": ""}, False),
    ],
)
def test_a_session_has_all_that_is_asked_for(asked: Any, found: bool) -> None:
    """A key alone asks for any value."""
    assert labels.has({"team": "a", "run": "7"}, labels.wanted(asked)) is found


@pytest.mark.parametrize("asked", ["team", ["a b"], ["=x"], {"a b": None, "c": "d"}, {"a": 3}])
def test_impossible_session_options_are_refused(asked: Any) -> None:
    """A mistake in a query does not look like an empty list."""
    with pytest.raises(InvalidArgument, match="label"):
        labels.wanted(asked)
