"""Moments are drawn from a seed."""

import pytest
from tests.compat.projects import moments


def test_the_same_seed_gives_the_same_moments() -> None:
    """For the same project and number of them."""
    assert moments.draw(7, "lua", 5) == moments.draw(7, "lua", 5)
    assert len({tuple(moments.draw(seed, name, 5)) for seed in (7, 8) for name in ("lua", "gzip")}) == 4


@pytest.mark.parametrize("count", [0, 1, 3, 50])
def test_moments_are_spread_over_the_run(count: int) -> None:
    """In order, one in each part of it, none at its very end."""
    found = moments.draw(1, "lua", count)
    assert found == sorted(found)
    parts = [int((share - moments.FIRST) / (moments.LAST - moments.FIRST) * count) for share in found]
    assert parts == list(range(count))
