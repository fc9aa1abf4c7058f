"""A case measured by the time of day is distinguished from one that took long."""

import pytest
from tests.compat.projects import clocks

REDIS = "[err]: BZPOPMIN\nExpected '9685' to be between to '1000' and '1150' (context: type eval line 23)\n"
PATTERN = r"Expected '(\d+)' to be between"


@pytest.mark.parametrize(
    ("waited", "found"),
    [
        (8.9, (9.7,)),  # it took 0.8 s before and after
        (9.8, ()),  # less than the snapshot waited: it cannot be the reason
        (0.5, ()),  # it took long itself
    ],
)
def test_the_wait_of_a_snapshot_is_included(waited: float, found: tuple[float, ...]) -> None:
    """And no more than the whole run besides."""
    assert clocks.measured(REDIS, PATTERN, waited, 5.0) == found


def test_without_a_pattern_nothing_is_measured() -> None:
    """Most projects have none."""
    assert clocks.measured(REDIS, "", 8.9, 5.0) == ()
