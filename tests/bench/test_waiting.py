"""The table of programs that wait."""

from __future__ import annotations

from bench.waiting.cases import CASES, WAITING
from bench.waiting.table import Found, confusion, page, summary

FOUND = [
    Found("read -p", "line", "line", 0.02, "Name: "),
    Found("less", "pager", "key", 0.04),
    Found("sleep", "sleep", "sleep"),
    Found("make", "running", "io"),
    Found("server", "io", "key", None, "a|b`"),
    Found("su", "password", "io"),
]


def test_waiting_is_judged_before_its_kind() -> None:
    """Most important is whether the program waits for input; then, for which."""
    assert [each.sorted_right for each in FOUND] == [True, True, True, True, False, False]
    assert [each.right for each in FOUND] == [True, False, True, True, False, False]
    told = summary(FOUND)
    assert "6 programs, 3 of which wait" in told
    assert "missed: 1" in told
    assert "False reports of waiting: 1" in told
    assert "as expected: 1 of 3" in told
    assert "greatest 40 ms" in told


def test_the_table_has_truth_by_rows() -> None:
    """Only columns with values are shown."""
    lines = confusion(FOUND)

    assert lines[0] == "| truth | line | key | io | sleep |"
    assert "| line | 1 |  |  |  |" in lines
    assert "| not waiting, in any way |  |  | 1 |  |" in lines


def test_the_page_is_made_of_cells() -> None:
    """A prompt can contain text that would end a cell."""
    rows = [line for line in page(FOUND, "here").splitlines() if line.startswith("| server")]

    assert rows == ["| server | io | key (!) |  | `a\\|b` |"]


def test_the_cases_are_many_with_distinct_names() -> None:
    """Half of them wait, and a name stands for one."""
    waiting = [case for case in CASES if case.truth in WAITING]

    assert len(waiting) >= 25
    assert len(CASES) - len(waiting) >= 25
    assert len({case.name for case in CASES}) == len(CASES)
