"""When copies are due: within what a policy promises, within the budget, and a breach is reported once."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.runtime.node.durable_schedule import DurableSchedule


def _changing(schedule: DurableSchedule, seconds: float, took: float, step: float = 0.25) -> Iterator[float]:
    """Run a session that changes all the time; yield the age of its oldest change at each step."""
    now, safe = 0.0, 0.0
    schedule.keep({"s": 60.0}, now)
    while now < seconds:
        for each in schedule.to_look(now):
            schedule.looked(each, now, changed=True)
        if schedule.next(now) == "s":
            began, now = now, now + took
            schedule.committed("s", began, now, processor=0.7)
            safe = began
        now += step
        yield now - safe


def test_a_session_that_always_changes_keeps_its_promise() -> None:
    """Also while a capture with its upload takes ten seconds."""
    assert max(_changing(DurableSchedule(2), 1200, took=10.0)) <= 60.0


def test_captures_are_as_rare_as_the_promise_lets_them_be() -> None:
    """One that takes a second is made once in the last seconds of each minute, not at each change."""
    schedule, copies = DurableSchedule(2), 0
    before = 0.0
    for age in _changing(schedule, 600, took=1.0):
        copies += age < before
        before = age
    assert copies <= 12


def test_an_idle_session_is_never_captured() -> None:
    """Its copy is as new as the last look at it."""
    schedule = DurableSchedule(2)
    schedule.keep({"s": 5.0}, 0.0)
    for now in range(1000):
        for each in schedule.to_look(float(now)):
            schedule.looked(each, float(now), changed=False)
        assert schedule.next(float(now)) is None
        assert schedule.newly_broken(float(now)) == []


def test_captures_stay_within_their_share_of_the_processors() -> None:
    """A hundred busy sessions get as many copies as a tenth of two processors makes; the rest is reported."""
    schedule = DurableSchedule(2)
    schedule.keep({f"s{number}": 60.0 for number in range(100)}, 0.0)
    now, spent, broken = 0.0, 0.0, set[str]()
    while now < 600:
        for each in schedule.to_look(now):
            schedule.looked(each, now, changed=True)
        broken |= {session for session, _ in schedule.newly_broken(now)}
        if (due := schedule.next(now)) is not None:
            schedule.committed(due, now, now + 0.5, processor=0.7)
            spent += 0.7
        now += 0.5
    assert spent <= 0.1 * 2 * 600 + 0.7
    assert broken


def test_a_breach_is_reported_once_until_a_copy_mends_it() -> None:
    """And what fails is tried again later each time, up to half a minute."""
    schedule = DurableSchedule(2)
    schedule.keep({"s": 10.0}, 0.0)
    schedule.looked("s", 1.0, changed=True)
    schedule.failed("s", 8.0)
    assert schedule.next(8.5) is None
    assert schedule.next(9.5) == "s"
    assert schedule.newly_broken(10.5) == [("s", 10.5)]
    assert schedule.newly_broken(20.0) == []
    assert schedule.committed("s", 20.0, 22.0, processor=0.0)
    schedule.looked("s", 23.0, changed=True)
    assert schedule.newly_broken(31.0) == [("s", 11.0)]


@settings(max_examples=200)
@given(st.lists(st.tuples(st.floats(0.1, 20), st.booleans(), st.booleans()), max_size=60))
def test_the_age_of_a_change_is_never_taken_for_less(steps: list[tuple[float, bool, bool]]) -> None:
    """Whatever is seen when: an uncommitted change older than the promise is always reported."""
    schedule, now, oldest, told = DurableSchedule(2), 0.0, 0.0, False
    schedule.keep({"s": 30.0}, now)
    for pause, changed, commits in steps:
        now += pause
        for _ in schedule.to_look(now):
            schedule.looked("s", now, changed=changed)
            if not changed:
                oldest, told = now, False
        if commits and schedule.next(now):
            schedule.committed("s", now, now, processor=0.0)
            oldest, told = now, False
        for _, age in schedule.newly_broken(now):
            assert age >= now - oldest - 1e-9
            assert not told
            told = True
