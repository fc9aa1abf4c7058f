import pytest
from bench.stats import Series, Target, freeze_limit, judge, median, percentile

RATIO = Target(0.1, "ratio", "")
VALUE = Target(0.1, "value", "")


def test_percentile_interpolates_between_neighbours() -> None:
    """A percentile that falls between two samples is between them in proportion."""
    assert percentile([10, 30, 20], 0.25) == 15
    assert percentile([1, 2], 0.99) == pytest.approx(1.99)


@pytest.mark.parametrize(("samples", "expected"), [([7], 7), ([3, 1, 2], 2), ([4, 1, 2, 3], 2.5)])
def test_median_is_the_middle(samples: list[float], expected: float) -> None:
    """The median is the middle sample, or half way between the two in the middle."""
    assert median(samples) == expected


@pytest.mark.parametrize(("samples", "share"), [([], 0.5), ([1.0], 1.1), ([1.0], -0.1)])
def test_percentile_refuses_invalid_arguments(samples: list[float], share: float) -> None:
    """There is no percentile of an empty list, and none outside 0 to 100."""
    with pytest.raises(ValueError, match="percentile"):
        percentile(samples, share)


@pytest.mark.parametrize(
    ("value", "baseline", "target", "verdict"),
    [
        (1.0, 10.0, RATIO, "pass"),
        (1.1, 10.0, RATIO, "miss"),
        (0.1, None, VALUE, "pass"),
        (0.2, 10.0, VALUE, "miss"),
        (1.0, None, RATIO, "-"),
        (1.0, 0.0, RATIO, "-"),
        (1.0, 10.0, None, "-"),
    ],
)
def test_judge(value: float, baseline: float | None, target: Target | None, verdict: str) -> None:
    """A target is met up to and including its limit; without target or baseline there is no verdict."""
    assert judge(value, baseline, target) == verdict


def test_freeze_limit_grows_with_the_heap() -> None:
    """A freeze can take at most 100 ms plus six copies of the heap."""
    assert freeze_limit(0.075) == pytest.approx(0.55)


def test_series_knows_its_percentiles() -> None:
    """A series answers for its samples in any order."""
    series = Series("x", "s", (3.0, 1.0, 2.0))

    assert (series.median, series.at(0), series.at(1)) == (2.0, 1.0, 3.0)
