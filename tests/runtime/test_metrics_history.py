"""The usage of sessions over a day, in a file that does not grow."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.runtime.pulse.metrics_history import MetricsHistory, Sample, between
from holdfast.runtime.serve.metrics_task import groups_of

BEGIN = 1_800_000_000.0


def sample(at: float, spent: float, *, memory: int = 10) -> Sample:
    return Sample(BEGIN + at, spent, 2.0, memory, 100, 1, 3, 1000)


def test_a_share_is_the_difference_of_two_samples() -> None:
    """Of all processors; a new container counts from 0, and of a long gap nothing is reported."""
    found = list(between([sample(0, 7), sample(5, 8), sample(10, 2), sample(400, 9), sample(405, 99)]))
    assert [each.processor_percent for each in found] == [10.0, 20.0, 100.0]
    assert [each.at for each in found] == [datetime.fromtimestamp(BEGIN + at, UTC) for at in (5, 10, 405)]


def test_a_day_is_kept_by_the_minute_and_an_hour_in_full(tmp_path: Path) -> None:
    """Whatever is written: two days of samples take the room of one."""
    history = MetricsHistory(tmp_path / "s")
    for number in range(2 * 86400 // 5):
        history.add(sample(number * 5, number, memory=number))
    end = BEGIN + 2 * 86400
    hour, day = history.metrics(end - 3600), history.metrics(end - 86400)
    assert len(hour) == 720
    assert {(after.at - before.at).total_seconds() for before, after in pairwise(hour)} == {5}
    assert 720 + 23 * 60 - 2 <= len(day) <= 720 + 23 * 60 + 2
    assert {each.processor_percent for each in day} == {10.0}
    assert (tmp_path / "s").stat().st_size <= 130_000
    assert history.metrics(end + 1) == []


def test_a_session_that_was_never_sampled_has_none(tmp_path: Path) -> None:
    assert MetricsHistory(tmp_path / "missing").metrics(0.0) == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["0::/docker/abc"], {"": "/docker/abc"}),
        (
            ["5:cpu,cpuacct:/docker/abc", "4:memory:/docker/abc", "0::/"],
            {"cpu": "/docker/abc", "cpuacct": "/docker/abc", "memory": "/docker/abc"},
        ),
        (["0::/user.slice"], {}),
    ],
)
def test_only_the_groups_of_the_container_are_read(lines: list[str], expected: dict[str, str]) -> None:
    """In either version; a process of another machine's engine has none here."""
    assert groups_of(lines, "abc") == expected
