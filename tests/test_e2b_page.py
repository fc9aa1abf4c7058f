"""The pages about E2B's own suites have the counts and reasons that `make test-doors` compares with."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "integrations"
KNOWN: dict[str, Any] = tomllib.loads(
    (ROOT / "tests" / "integration" / "doors" / "e2b_suites" / "known.toml").read_text()
)
MOST_OF_OURS = 0.03
"""Of the tests of a suite: how many may fail for what Holdfast lacks."""


def failing(suite: str, *, ours: bool = False) -> set[str]:
    reasons = [each for each in KNOWN["reasons"] if each["ours"] or not ours]
    return {test for reason in reasons for test in reason["fails"].get(suite, ())}


def test_each_failing_test_is_on_the_page_with_its_reason() -> None:
    """A user of E2B finds the name of a test, and why it fails."""
    page = (PAGES / "e2b-suites.md").read_text()
    for reason in KNOWN["reasons"]:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| {reason['why']} |")]
        for tests in reason["fails"].values():
            assert [test for test in tests if f"`{test.partition('::')[2]}`" not in row] == [], reason["why"]


@pytest.mark.parametrize("suite", KNOWN["counts"])
def test_the_counts_are_those_of_the_pages(suite: str) -> None:
    """The passes on both pages follow from the failing tests."""
    count = KNOWN["counts"][suite]
    passes = f"{count - len(failing(suite))} of {count}"
    assert f"| {passes} |" in (PAGES / "e2b-suites.md").read_text()
    assert passes in (PAGES / "e2b.md").read_text()


@pytest.mark.parametrize("suite", KNOWN["counts"])
def test_few_tests_fail_for_what_is_lacking_here(suite: str) -> None:
    """At most 3 % of each suite."""
    assert len(failing(suite, ours=True)) <= MOST_OF_OURS * KNOWN["counts"][suite]
