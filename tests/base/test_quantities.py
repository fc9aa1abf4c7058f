"""Durations and sizes: the spellings people use are read, and all others refused."""

from __future__ import annotations

import pytest

from holdfast.base.quantities import gib_text, parse_duration, parse_size, size_text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("1.5h", 5400),
        (" 10 min ", 600),
        ("10M", 600),
        ("2d", 172_800),
        ("1w", 604_800),
        ("0", 0),
    ],
)
def test_a_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    """With or without a unit, in either case, and with decimals."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "1e3", "10x", "1h30m", "٣s", "1" * 30, "nan"])
def test_other_text_is_not_a_duration(text: str) -> None:
    """Signs, exponents, two units and digits of other scripts among it."""
    assert parse_duration(text) is None


def test_a_unit_can_be_required() -> None:
    """Where a bare number could mean minutes."""
    assert parse_duration("90", unit_required=True) is None
    assert parse_duration("90 s", unit_required=True) == 90


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("4096", 4096),
        ("4k", 4096),
        ("500m", 500 << 20),
        ("1.5GiB", 3 << 29),
        ("2 gb", 2 << 30),
        ("1t", 1 << 40),
    ],
)
def test_a_size_is_read_in_bytes(text: str, count: int) -> None:
    """Units are powers of 1024, in either case."""
    assert parse_size(text) == count


@pytest.mark.parametrize("text", ["", "g", "-1", "1p", "0x10", "1" * 40])
def test_other_text_is_not_a_size(text: str) -> None:
    """Signs, unknown units and hexadecimal numbers among it."""
    assert parse_size(text) is None


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (12_345_678, "12.3 MB"),
        (5 * 10**9, "5 GB"),
        (10**13, "10 TB"),
    ],
)
def test_sizes_are_shown_in_three_digits(count: int, text: str) -> None:
    """In the largest unit in which they are at least 1."""
    assert size_text(count) == text


def test_memory_is_shown_in_gib() -> None:
    """With one decimal."""
    assert gib_text(3 << 29) == "1.5 GiB"
