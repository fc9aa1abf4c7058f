"""Answers that are streams: the limits of their duration."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.e2b.connect_wire import seconds_of


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, None), ("0", None), ("1000", 0.9), ("60000", 59.9), ("100", 0.09), ("9999999999", 9999999.899)],
)
def test_the_answer_precedes_the_clock_of_the_client(header: str | None, seconds: float | None) -> None:
    assert seconds_of(header) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize("header", ["", "-1", "1.5", "1s", "12345678901", " 1"])
def test_invalid_numbers_are_refused(header: str) -> None:
    with pytest.raises(InvalidArgument, match="connect-timeout-ms"):
        seconds_of(header)
