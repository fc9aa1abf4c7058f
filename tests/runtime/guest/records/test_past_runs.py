"""A supervisor's knowledge of its predecessor's runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.runtime.guest.records.journal import Journal
from holdfast.runtime.guest.records.past_runs import MOST, PastRuns


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


def test_a_run_that_was_cut_off_is_not_repeated(journal: Journal) -> None:
    """Its end is unknown; the end of a different run is in the journal; a new one can run."""
    journal.append("command_started", id="a", command="make", actor="agent")
    ended = journal.append("command_ended", id="a", exit_code=0)
    journal.append("cell_started", id="b", code="work()", actor="person:ann")
    past = PastRuns(journal)

    assert f"entry {ended} of the journal" in (past.refusal("a", again=True) or "")
    assert "cannot know how the cell ended" in (past.refusal("b", again=False) or "")
    assert past.cut_off() == [{"kind": "cell", "id": "b", "command": "work()", "actor": "person:ann"}]
    assert past.refusal("c", again=False) is None
    assert past.refusal("c", again=True) is None, "it is a run of this supervisor by now"


def test_a_request_that_perhaps_arrived_is_not_repeated(journal: Journal) -> None:
    """The supervisor could have been killed before it wrote down the run that it had begun."""
    assert "cannot know whether that ran" in (PastRuns(journal).refusal("a", again=True) or "")


def test_an_earlier_life_is_over(journal: Journal) -> None:
    """Runs cut off by the death before the last one are not its cause."""
    journal.append("job_started", id="a", command="kill -9 -1")
    journal.append("restarted", begins=True)
    journal.append("run_started", id="b", argv="./serve")
    found = PastRuns(journal).cut_off()
    assert [(run["kind"], run["command"]) for run in found] == [("program", "./serve")]


def test_memory_is_bounded(journal: Journal) -> None:
    """However many runs follow."""
    past = PastRuns(journal)
    for number in range(MOST + 10):
        assert past.refusal(f"r{number}", again=False) is None
    assert past.refusal("r0", again=True) is not None
