"""The limits of a job: total time, waiting for input, no progress."""

from __future__ import annotations

import pytest

from holdfast.runtime.ci.watched_command import IDLE_BYTES, Counters, HangDetector, TimeLimits, Watchdog
from holdfast.runtime.guest.pulse.state import State

ASKS = State("waiting", "password", prompt="Password:")


def looks(after: float, seen: list[tuple[int, float, int]]) -> float:
    """Return for how long a session made no progress, sampled once a second."""
    detector, stood = HangDetector(0.0, after), 0.0
    for at, (output, cpu, moved) in enumerate(seen, start=1):
        stood = detector.take(Counters(float(at), output, cpu, moved))
    return stood


def test_no_activity_is_a_standstill() -> None:
    """No output, no computing, no traffic: it lasts since the first sample."""
    assert looks(5, [(10, 1.0, 100)] * 6) == 6.0


@pytest.mark.parametrize(
    "last",
    [(11, 1.0, 100), (10, 1.3, 100), (10, 1.0, 100 + 30 * IDLE_BYTES)],
    ids=["output", "computing", "traffic"],
)
def test_any_activity_is_progress(last: tuple[int, float, int]) -> None:
    """A byte of output, some computing, some traffic: it is still at work."""
    assert looks(5, [(10, 1.0, 100)] * 6 + [last]) == 0.0


def test_endless_polling_is_a_standstill() -> None:
    """A process that wakes up now and then uses a hundredth of a processor, which does not count."""
    seen = [(10, 1.0 + 0.01 * at, 100 + 200 * at) for at in range(80)]
    assert looks(50, seen) == 80.0


def test_noise_of_clock_ticks_is_not_progress() -> None:
    """The CPU time varies by a tick or two between samples that are close together."""
    detector, stood = HangDetector(0.0, 1.0), 0.0
    for number, cpu in enumerate([0.44, 0.429, 0.428, 0.437, 0.436, 0.46, 0.433, 0.431], start=1):
        stood = detector.take(Counters(number / 4, 7, cpu, 100 * number))
    assert stood == 2.0


def test_a_standstill_becomes_a_hang_after_its_time() -> None:
    """And never without one."""
    detector = HangDetector(0.0, 5.0)
    assert not detector.hangs(4.9)
    assert detector.hangs(5.0)
    assert not HangDetector(0.0, 0.0).hangs(1e9)


def test_samples_are_few() -> None:
    """Eight within the time, at least every half minute, at most four a second."""
    assert HangDetector(0.0, 600.0).every == 30.0
    assert HangDetector(0.0, 16.0).every == 2.0
    assert HangDetector(0.0, 1.0).every == 0.25


def test_without_limits_nothing_is_ever_due() -> None:
    """A job without any limit is waited for until it ends."""
    watchdog = Watchdog(0.0, 0.0, TimeLimits(None, 0.0))
    assert watchdog.next() is None
    assert watchdog.due(1e9) is None


def test_the_time_of_a_job_counts_from_its_beginning() -> None:
    """The setup's share is lost to the command."""
    watchdog = Watchdog(90.0, 0.0, TimeLimits(100.0, 0.0))
    assert watchdog.next() == 100.0
    assert watchdog.due(99.9) is None
    assert watchdog.due(100.0) == "timeout"


def test_waiting_is_confirmed_after_the_grace() -> None:
    """It is checked once more then, and forgotten if it has continued; a new question starts over."""
    watchdog = Watchdog(0.0, 0.0, TimeLimits(None, 0.0, answer=2.0))
    watchdog.waits(ASKS, 10.0)
    assert watchdog.next() == 12.0
    assert watchdog.due(11.9) is None
    assert watchdog.due(12.0) == "confirm"
    watchdog.continues()
    assert watchdog.next() is None
    watchdog.waits(ASKS, 20.0)
    assert watchdog.next() == 22.0


def test_a_question_is_confirmed_before_the_time_is_over() -> None:
    """If both are due, the question says more."""
    watchdog = Watchdog(0.0, 0.0, TimeLimits(10.0, 0.0, answer=2.0))
    watchdog.waits(ASKS, 8.0)
    assert watchdog.due(10.0) == "confirm"


def test_samples_follow_each_other() -> None:
    """Each sets the time of the next, and the one after a sufficient time detects the hang."""
    watchdog = Watchdog(0.0, 0.0, TimeLimits(None, 4.0))
    hangs: list[bool] = []
    while not hangs or not hangs[-1]:
        at = watchdog.next()
        assert at is not None
        assert watchdog.due(at) == "look"
        hangs.append(watchdog.looked(Counters(at, 5, 0.5, 0), at))
    assert watchdog.next() == 4.5
    assert len(hangs) == 8


def test_a_sample_that_fails_is_retried() -> None:
    """A session that is just being captured does not answer; that is not a hang, and sampling continues."""
    watchdog = Watchdog(0.0, 0.0, TimeLimits(None, 4.0))
    assert not watchdog.looked(None, 0.5)
    assert watchdog.next() == 1.0
