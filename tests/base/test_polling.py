"""Polling: ends with the first result, and at the limit otherwise."""

from __future__ import annotations

import itertools

import pytest

from holdfast.base import polling


def test_the_first_true_result_ends_it() -> None:
    counter = itertools.count()
    assert polling.until(lambda: max(0, next(counter) - 2), 60, 0) == 1
    assert next(counter) == 4


def test_at_the_limit_the_last_result_is_returned() -> None:
    looks: list[int] = []
    assert polling.until(lambda: looks.append(1), 0, 0) is None
    assert looks == [1]


def test_an_attempt_is_repeated_while_it_raises_that_error() -> None:
    failures = iter([BlockingIOError, BlockingIOError])

    def attempt() -> str:
        if error := next(failures, None):
            raise error
        return "done"

    assert polling.while_raising(BlockingIOError, attempt, 60, 0) == "done"


def test_at_the_limit_the_last_error_is_raised() -> None:
    def attempt() -> None:
        raise BlockingIOError("held")

    with pytest.raises(BlockingIOError, match="held"):
        polling.while_raising(BlockingIOError, attempt, 0, 0)


def test_other_errors_end_it_at_once() -> None:
    def attempt() -> None:
        raise PermissionError

    with pytest.raises(PermissionError):
        polling.while_raising(BlockingIOError, attempt, 60, 0)
