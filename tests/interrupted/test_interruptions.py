"""Interruptions are drawn from a seed, and each comes once, whatever the workers have done until then."""

from __future__ import annotations

from tests.interrupted import trial
from tests.interrupted.interruptions import KINDS, Interruption, Schedule, drawn

CALLS = [(verb, number) for number in ("1.1", "1.2", "2.1", "2.2") for verb in ("exec", "done", "checkpoint")]


def test_a_seed_draws_the_same_again_and_each_kind_as_often() -> None:
    found = drawn(3, 9, CALLS, {})
    assert found == drawn(3, 9, CALLS, {})
    assert found != drawn(4, 9, CALLS, {})
    assert [CALLS.index(each.at) for each in found] == sorted({CALLS.index(each.at) for each in found})
    assert sorted(each.kind for each in found) == sorted(KINDS * 3)


def test_an_interruption_whose_call_was_passed_comes_at_the_next_one() -> None:
    plan = [Interruption("container", CALLS[place], 0) for place in (1, 2, 4)]
    schedule = Schedule(CALLS, plan)
    assert schedule.due(("resume", "")) is None
    assert schedule.due(CALLS[0]) is None
    assert schedule.due(CALLS[3]) == plan[0]
    assert schedule.due(("resume", "")) == plan[1]
    assert schedule.due(CALLS[3]) is None
    assert schedule.due(CALLS[4]) == plan[2]
    assert schedule.due(CALLS[5]) is None
    assert schedule.left == []


def test_effects_that_are_missing_or_doubled_are_counted() -> None:
    found = {
        "ledger": ["1.1 begins", "1.1 ends"],
        "commits": ["step 1.1"],
        "shell": ["1.1"],
        "verified": ["1.1"],
    }
    assert trial.wrong_effects(found, ["1.1"]) == 0
    assert trial.wrong_effects(found | {"shell": ["1.1", "1.1"], "commits": []}, ["1.1"]) == 2
