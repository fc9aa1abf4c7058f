"""The failed captures that are tried again, and how often."""

from __future__ import annotations

from typing import NoReturn

import pytest

from holdfast.errors import CaptureFailed
from holdfast.runtime.capture import capture_failures
from holdfast.snapshots.link import CheckpointerFailed

PASSING = CheckpointerFailed("criu", "failed", ["(criu/seize.c:1): Zombies with threads are not supported"])
LASTING = CheckpointerFailed(
    "criu", "failed", ["(criu/seize.c:1): Unseizable non-zombie 3 found, state D, err -1/10"]
)
OTHER = CheckpointerFailed("os", "No such file or directory", [])


class Said(Exception):
    """Messages to the session's user."""


class Attempts:
    """Fails with each of `failures`, then succeeds."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.made = 0

    def __call__(self) -> str:
        self.made += 1
        if self.failures:
            raise self.failures.pop(0)
        return "captured"


def say(refusal: CheckpointerFailed) -> NoReturn:
    raise Said from refusal


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_failures, "PAUSES", (0.0, 0.0, 0.0))


def test_transient_failures_are_retried() -> None:
    """A process that is just ending has ended by the next try."""
    attempts = Attempts(PASSING, PASSING)

    assert capture_failures.until_settled(attempts, say) == "captured"
    assert attempts.made == 3


def test_a_capture_that_did_not_begin_in_time_is_tried_again() -> None:
    """On a busy machine a session can run on before; in the end it is reported."""
    late = capture_failures.BeganLate(CaptureFailed("the capture did not begin in time"))
    attempts = Attempts(late, PASSING, late)
    assert capture_failures.until_settled(attempts, say) == "captured"
    with pytest.raises(CaptureFailed, match="did not begin in time"):
        capture_failures.until_settled(Attempts(*[late] * 10), say)
    assert [capture_failures.repeats(late, made) for made in (1, 3, 4)] == [True, True, False]


def test_a_capture_is_tried_a_bounded_number_of_times() -> None:
    """A persistent failure is reported in the end."""
    attempts = Attempts(*[PASSING] * 10)

    with pytest.raises(Said) as said:
        capture_failures.until_settled(attempts, say)

    assert attempts.made == 4
    assert said.value.__cause__ is PASSING


def test_repeated_commands_are_known_beforehand() -> None:
    """So that a session does not learn of a failure that another attempt makes good."""
    assert [capture_failures.repeats(PASSING, made) for made in (1, 2, 3, 4)] == [True, True, True, False]
    assert not capture_failures.repeats(LASTING, 1)
    assert not capture_failures.repeats(OTHER, 1)


@pytest.mark.parametrize("refusal", [LASTING, OTHER])
def test_other_failures_are_reported_immediately(refusal: CheckpointerFailed) -> None:
    """Neither a debugger nor a full disk goes away automatically."""
    attempts = Attempts(refusal)

    with pytest.raises(Said):
        capture_failures.until_settled(attempts, say)

    assert attempts.made == 1
