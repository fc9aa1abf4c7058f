from __future__ import annotations

from typing import Any

import pytest

from holdfast.base.ids import check_name, new_id, new_name, series
from holdfast.base.resolve import resolve
from holdfast.errors import InvalidArgument, SessionNotFound, SnapshotNotFound

KNOWN = [("a1b2c3d4e5f6", "work"), ("a1ffffffffff", "a1b2"), ("bbbbbbbbbbbb", "play")]


def test_made_up_names_are_valid() -> None:
    """Names and ids that are made up pass the checks for names and ids."""
    for _ in range(200):
        assert check_name(new_name())
        assert len(new_id()) == 12


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "x" * 64, "ü", "a\n", "a\x1b[31m", "0123456789ab"])
def test_unfit_names_are_refused_in_one_printable_line(name: Any) -> None:
    """A name that cannot be a host name, or looks like an id, is refused without its control characters."""
    with pytest.raises(InvalidArgument) as refused:
        check_name(name)

    assert str(refused.value).isprintable()


def test_a_series_counts_from_one() -> None:
    """One thing keeps its name; several are numbered."""
    assert series("x", 1) == ["x"]
    assert series("x", 2) == ["x-1", "x-2"]


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ("work", "a1b2c3d4e5f6"),
        ("a1b2c3d4e5f6", "a1b2c3d4e5f6"),
        ("a1b2", "a1ffffffffff"),
        ("a1b", "a1b2c3d4e5f6"),
        ("b", "bbbbbbbbbbbb"),
    ],
)
def test_ids_and_names_win_over_prefixes(ref: Any, expected: Any) -> None:
    """An exact id or name takes precedence over the beginning of a different id."""
    assert expected == resolve(ref, KNOWN)


def test_an_ambiguous_prefix_names_the_candidates() -> None:
    """A prefix of several ids is refused, and the hint lists them."""
    with pytest.raises(InvalidArgument) as refused:
        resolve("a1", KNOWN)

    assert "a1b2c3d4e5f6 (work)" in refused.value.hint


def test_unknown_ids_are_not_found() -> None:
    """No ref, or one that fits nothing, is an error of its kind."""
    with pytest.raises(SessionNotFound):
        resolve("", KNOWN)
    with pytest.raises(SnapshotNotFound, match="cannot find snapshot"):
        resolve("nope\x1b[2J", KNOWN, "snapshot")
