import pytest
from bench.stats import Target, Unit
from rich.console import Console
from tests.bench.rows import ALL, EXEC, FREEZE, TORN

from bench import show


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (0.000824, "s", "824 µs"),
        (0.00444, "s", "4.44 ms"),
        (0.0634, "s", "63.4 ms"),
        (0.431, "s", "431 ms"),
        (1.74, "s", "1.74 s"),
        (0.0, "s", "0.00 µs"),
        (42.3 * (1 << 20), "bytes", "42.3 MiB"),
        (512, "bytes", "512 B"),
        (3, "count", "3"),
        (None, "s", "-"),
    ],
)
def test_figures_have_three_digits(value: float | None, unit: Unit, expected: str) -> None:
    """A figure has three digits and the largest unit that leaves something before the point."""
    assert show.figure(value, unit) == expected


def test_limits_name_their_subject() -> None:
    """A limit of a ratio is a multiple; one of a value has its unit."""
    assert show.limit(Target(0.1, "ratio", ""), "s") == "≤ 0.1 ×"
    assert show.limit(Target(0.55, "value", ""), "s") == "≤ 550 ms"
    assert show.limit(None, "s") == ""


def test_titles_of_rows_are_unique() -> None:
    """The size is in the title, and so is a statistic other than the median."""
    assert [show.title(EXEC), show.title(FREEZE)] == ["exec true", "freeze, 1 GiB"]


def test_a_count_is_shown_with_its_total() -> None:
    """The number of times it happened is shown with the number of times it could have."""
    assert show.value(TORN) == "2 of 3"


def test_the_table_shows_verdicts_and_reasons() -> None:
    """Every row is in the table: with its verdict, or with the reason it was skipped."""
    console = Console(width=200, record=True, file=None, quiet=True)
    console.quiet = False
    with console.capture() as captured:
        console.print(show.table(ALL))
    text = captured.get()

    assert all(word in text for word in ("pass", "miss", "skipped", "it is missing", "2 of 3", "0.0333 ×"))
