"""Load on one server: the answers to clients are compared with the state of sessions, and a fault shows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from bench.server_load import load_rows
from bench.server_load.load_clients import MIX, kinds
from bench.server_load.load_run import Found, kill_moments
from bench.server_load.loaded_server import Sample
from bench.server_load.told_acts import Act, Outage, compare, difference, missed

ACT = Act("post-1", "post", "post-1.1", 10.0, 12.0, "done", keyed=True)
KILLED = Outage(11.0, 13.0)


def names(*acts: Act) -> dict[str, list[str]]:
    return {"post-1": [act.name for act in acts]}


def test_an_act_that_was_acknowledged_is_there_once() -> None:
    assert compare([ACT], names(ACT)).faults == []
    assert compare([ACT], {}).faults == ["lost: post-1.1"]
    assert compare([ACT], names(ACT, ACT)).faults == ["doubled: post-1.1 (2 times)"]
    assert compare([], names(ACT)).faults == ["unasked: post-1: post-1.1"]
    assert compare([ACT], {"post-2": ["post-1.1"]}).faults == ["lost: post-1.1", "unasked: post-2: post-1.1"]
    assert compare([replace(ACT, appends=False)], {}).faults == []


def test_only_unknowable_outcomes_are_unknown() -> None:
    """Without a key, and under way when the server was killed, or begun while there was none."""
    unknown = replace(ACT, outcome="unknown", keyed=False)
    for held in (names(unknown), {}):
        assert compare([unknown], held, [KILLED]).faults == []
    assert compare([unknown], names(unknown, unknown), [KILLED]).faults == ["doubled: post-1.1 (2 times)"]
    assert compare([unknown], {}).faults == ["unfounded: post-1.1"]
    for early, late in ((5.0, 10.9), (13.1, 14.0)):
        assert compare([replace(unknown, began=early, ended=late)], {}, [KILLED]).faults
    assert compare([replace(unknown, began=12.0, ended=20.0)], {}, [KILLED]).faults == []
    assert compare([replace(unknown, keyed=True)], {}, [KILLED]).faults == ["unfounded: post-1.1"]


def test_failures_and_torn_outputs_are_faults() -> None:
    failed = replace(ACT, outcome="failed", code="session_busy: cannot")
    assert compare([failed], {}).faults == ["failed: post-1.1 (session_busy: cannot)"]
    assert compare([replace(ACT, wrong="3 of 4 bytes")], names(ACT)).faults == [
        "output: post-1.1 (3 of 4 bytes)"
    ]


def test_an_output_with_a_loss_or_a_double_differs() -> None:
    assert difference("a 1\na 2\n", "a 1\na 2\n") == ""
    assert difference("a 1\n", "a 1\na 2\n") == "4 of 8 bytes; from 4 on ''"
    assert difference("a 1\na 1\na 2\n", "a 1\na 2\n") == "12 of 8 bytes; from 6 on '1\\na 2\\n'"


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        ([1, 2, 5], ""),
        ([1, 2, 5, 6], ""),
        ([1, 5], "1 events not seen, the first is 2"),
        ([1, 2, 2, 5], "events out of order or doubled"),
        ([], "3 events not seen, the first is 1"),
    ],
)
def test_a_follower_sees_each_event_once(seen: list[int], told: str) -> None:
    assert missed(seen, [1, 2, 5]) == told


def test_clients_are_mixed() -> None:
    """Each kind is among the first seven; of twenty there are as many as the mix says."""
    assert len(set(kinds(len(MIX)))) == len(MIX)
    assert Counter(kinds(20)) == dict(MIX)
    assert {kind.kind for kind, _ in MIX if kind.keys} == {"post", "stream", "cell"}, "others take no key"
    assert Counter(kinds(200)) == {kind: 10 * count for kind, count in MIX}


def test_kills_come_in_the_first_half() -> None:
    assert list(kill_moments(60, 2)) == [10.0, 20.0]
    assert list(kill_moments(60, 0)) == []


def test_figures_are_judged_by_their_limits() -> None:
    """Memory by the growth within the last life, in which no one was killed."""
    samples = [Sample(float(at), 0, 900 + at, 5, 9, at * 0.1) for at in range(4)]
    samples += [Sample(10.0 + at, 1, 100 + at // 2, 7, 8, at * 0.2) for at in range(16)]
    good = Found([ACT], outages=[KILLED], samples=samples, health=[0.001] * 100, idle_share=0.019)
    rows = list(load_rows.rows(good))
    assert {row.verdict for row in rows} == {"pass", "-"}
    growth = next(row for row in rows if row.name.startswith("memory in the last quarter"))
    assert (growth.value, growth.baseline_value) == (106.5, 102.5)
    bad = Found(
        [ACT],
        compare([ACT], {}),
        samples=[replace(each, memory=each.memory * int(1 + each.at)) for each in samples],
        health=[0.001] * 90 + [0.2] * 10,
        idle_share=0.03,
        errors=["Traceback"],
    )
    missed_names = [row.name for row in load_rows.rows(bad) if row.verdict == "miss"]
    assert missed_names == [
        "memory in the last quarter of a life",
        "processor time in each second while all idle",
        "/health",
        "acts lost",
        "failures in the server's log",
    ]
