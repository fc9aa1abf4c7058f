from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from holdfast.errors import GuestDisconnected, SessionAsleep, SessionRewound
from holdfast.runtime.guest_rpc import reconnect
from holdfast.runtime.guest_rpc.reconnect import BEGUN_SECONDS, SILENCE_SECONDS, Reconnection


def _lost(times: int) -> Callable[[], str]:
    """Return an attempt that loses its connection this many times, then ends."""
    left = [times]

    def attempt() -> str:
        if left[0]:
            left[0] -= 1
            raise GuestDisconnected("lost")
        return "done"

    return attempt


def test_a_lost_connection_is_made_again() -> None:
    """Until the attempt ends."""
    assert Reconnection(lambda: None).run(_lost(3)) == "done"


def test_calls_from_before_a_rewind_are_not_continued() -> None:
    """It would be done a second time, in another past."""
    with pytest.raises(SessionRewound, match="was rewound"):
        Reconnection(lambda: None, lambda: time.time() + 1).run(_lost(1))


def test_an_earlier_rewind_does_not_matter() -> None:
    """Only a rewind between the beginning of a call and its lost connection counts."""
    assert Reconnection(lambda: None, lambda: time.time() - 100).run(_lost(3)) == "done"


def test_calls_that_can_start_again_do() -> None:
    """An attached terminal shows the session's current screen."""
    begun: list[str] = []
    reconnection = Reconnection(lambda: None, lambda: time.time() + 1)
    reconnection.again = lambda: begun.append("anew")

    assert reconnection.run(_lost(1)) == "done"
    assert begun == ["anew"]


def test_time_in_which_the_machine_slept_is_not_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clocks can have continued: the first to wake would find the others dead."""
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    lost = _lost(3)

    def attempt() -> str:
        clock[0] += 3600
        return lost()

    assert Reconnection(lambda: None).run(attempt) == "done"


def test_silence_ends_the_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def attempt() -> str:
        clock[0] += 1
        raise GuestDisconnected("lost")

    with pytest.raises(GuestDisconnected):
        Reconnection(lambda: None).run(attempt)
    assert SILENCE_SECONDS - 2 <= clock[0] - 1000 <= SILENCE_SECONDS + 4


def _unanswered(clock: list[float], seconds: float) -> Callable[[], str]:
    """Return an attempt that connects, and waits for its answer in vain."""

    def attempt() -> str:
        clock[0] += seconds
        raise GuestDisconnected("lost") from TimeoutError()

    return attempt


def test_a_supervisor_that_accepts_and_does_not_answer_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped supervisor's socket still listens: each attempt waits as long as an answer can take."""
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with pytest.raises(GuestDisconnected):
        Reconnection(lambda: None).run(_unanswered(clock, 30))
    assert clock[0] - 1000 == 60


def test_a_session_being_captured_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with pytest.raises(GuestDisconnected):
        Reconnection(lambda: None, held=lambda: clock[0] < 1300).run(_unanswered(clock, 30))
    assert 1300 <= clock[0] <= 1360


@pytest.mark.parametrize(
    ("why", "begun", "seconds", "wakes"),
    [
        ("idle", False, 0.0, True),
        ("life", False, 0.0, True),
        ("idle", True, 0.0, True),  # it began while the session was falling asleep
        ("idle", True, BEGUN_SECONDS + 1, False),  # it waited so long for input that it was no use
        ("life", True, 0.0, False),  # an end is an end, also for what runs
    ],
)
def test_a_session_that_falls_asleep_is_woken_for_a_call_that_it_had_not_taken(
    why: str, begun: bool, seconds: float, wakes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And for an overlooked one, but for no other: a call that waits for an answer keeps no session awake."""
    asleep = [why]

    def check() -> None:
        if asleep:
            raise SessionAsleep("cannot use session work: it sleeps", why=asleep[0])

    now = time.time()
    monkeypatch.setattr(reconnect, "ASK_SECONDS", 0.0)
    reconnection = Reconnection(check, wake=asleep.clear)

    def attempt() -> str:
        if begun:
            reconnection.heard()
            monkeypatch.setattr(time, "time", lambda: now + seconds)
        if asleep:
            raise GuestDisconnected("cannot reach it")
        return "done"

    if wakes:
        assert reconnection.run(attempt) == "done"
    else:
        with pytest.raises(SessionAsleep):
            reconnection.run(attempt)
    asleep[:] = [why]
    with pytest.raises(SessionAsleep):
        Reconnection(check).run(attempt)
