"""The snapshots that are tried, and the result."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.flaky import repeat
from holdfast.runtime.flaky.bisect import chain, search
from holdfast.runtime.store.rows import SnapshotRow


def row(name: str) -> SnapshotRow:
    return SnapshotRow(name, name, "live", "ready", "s", datetime.now(UTC))


ROWS = [row(name) for name in "abcdx"]
ABOVE = {"a": None, "b": "a", "c": "b", "d": "c", "x": "b"}


def test_the_chain_between_two_snapshots_leaves_branches_out() -> None:
    """From the earlier to the later."""
    assert [one.id for one in chain(ROWS, ABOVE, ROWS[0], ROWS[3])] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(("good", "bad"), [(3, 0), (4, 3), (0, 0)])
def test_unrelated_snapshots_cannot_be_searched(good: int, bad: int) -> None:
    """Backwards, on another branch, or nothing between."""
    with pytest.raises(InvalidArgument):
        chain(ROWS, ABOVE, ROWS[good], ROWS[bad])


def test_a_circle_of_snapshots_ends() -> None:
    """However the links were made."""
    with pytest.raises(InvalidArgument):
        chain(ROWS, {"c": "d", "d": "c"}, ROWS[0], ROWS[3])


@pytest.mark.parametrize("first", range(1, 100))
def test_the_first_failure_is_found_in_few_steps(first: int) -> None:
    """Neither of the ends is tried again."""
    tried: list[int] = []

    def fails(number: int) -> bool:
        tried.append(number)
        return number >= first

    assert search(100, fails) == first
    assert len(tried) <= 7
    assert not {0, 99} & set(tried)


@pytest.mark.parametrize(
    ("available", "copy", "coming", "expected"),
    [(8, 1, 0, True), (8, 1, 5, True), (8, 1, 6, False), (2, 2, 0, False), (1, 0, 0, False)],
)
def test_a_copy_is_started_where_there_is_room(
    available: int, copy: int, coming: int, expected: bool
) -> None:
    """With the expected use by other started ones, and a tenth of 10 GiB to spare."""
    gib = 1 << 30
    assert repeat.memory_fits(available * gib, 10 * gib, copy * gib, coming) is expected
