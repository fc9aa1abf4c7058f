"""The page of kills: losses are counted separately by whether they were reported."""

from __future__ import annotations

from bench.faults.page import hurt, page, summary, table
from bench.faults.storm import Outcome

FOUND = [
    Outcome("snapshot", "criu", struck=True, succeeded=False),
    Outcome("fork", "criu", struck=True, succeeded=False, lost="a job stands still", told="pid 7 died"),
    Outcome("fork", "worker", struck=True, succeeded=False, lost="memory | gone"),
    Outcome("suspend", "controller", struck=False, succeeded=True),
    Outcome("suspend", "checkpointer", struck=True, succeeded=False, left=["folder"], seconds=2.5),
]


def test_losses_are_counted_by_whether_they_were_reported() -> None:
    """Only losses that hit something count; a late kill hit nothing."""
    assert summary(FOUND) == (
        "5 rounds, 4 of which hit: 2 sessions unhurt (50.0 %), 1 hurt and reported, 1 hurt silently, "
        "1 with something left behind"
    )


def test_rows_are_grouped_by_the_killed_process() -> None:
    """With the longest time until it was known."""
    rows = table(FOUND).splitlines()
    assert rows[2] == "| CRIU | 2 | 2 | 1 | 1 | 0 | 0 | 0.0 s |"
    assert rows[4] == "| the whole checkpointer | 1 | 1 | 1 | 0 | 0 | 1 | 2.5 s |"


def test_losses_are_listed() -> None:
    """With the report on them; nothing breaks the table."""
    assert "| fork | worker | memory \\| gone |  |" in hurt(FOUND)
    assert "| suspend | checkpointer | left: folder |  |" in hurt(FOUND)
    assert hurt(FOUND[:1]) == "Nothing was lost in any round."
    assert "# What survives a kill" in page(FOUND, "Measured.")
