"""Differences in a captured or continued run are distinguished from the project's own nondeterminism."""

import pytest
from tests.compat.projects.comparison import Run, compare

CASES = {"a": "passed", "b": "failed", "c": "passed"}
PLAIN = [Run(f"plain run {n}", 1, CASES, {"out": "12ab"}) for n in (1, 2)]


def lines(*others: Run, plain: list[Run] = PLAIN) -> list[str]:
    return [difference.line() for difference in compare(plain, others).differences]


def test_runs_that_are_alike_differ_in_nothing() -> None:
    """A case that fails in all is reported, and does not count as a difference."""
    found = compare(PLAIN, [Run("copy", 1, dict(reversed(CASES.items())), {"out": "12ab"})])
    assert (found.differences, found.unsteady, found.failing) == ((), (), ("b",))
    assert (found.cases, found.files) == (3, 1)


@pytest.mark.parametrize(
    ("other", "line"),
    [
        (Run("copy", 0, CASES, {"out": "12ab"}), "copy: exit code: 1, here 0"),
        (Run("copy", 1, CASES | {"a": "failed"}, {"out": "12ab"}), "copy: case a: passed, here failed"),
        (
            Run("copy", 1, {"a": "passed", "b": "failed"}, {"out": "12ab"}),
            "copy: case c: passed, here absent",
        ),
        (Run("copy", 1, CASES | {"d": "passed"}, {"out": "12ab"}), "copy: case d: absent, here passed"),
        (Run("copy", 1, CASES, {"out": "ffff"}), "copy: file out: 12ab, here ffff"),
        (Run("copy", 1, CASES, {}), "copy: file out: 12ab, here absent"),
    ],
)
def test_each_kind_of_difference_is_reported(other: Run, line: str) -> None:
    """By kind, name, and both values."""
    assert lines(other) == [line]


def test_a_run_that_did_not_end_says_why() -> None:
    """And all that it lacks is absent."""
    found = lines(Run("copy", None, failure="cannot restore"))
    assert "copy: exit code: 1, here none: cannot restore" in found
    assert len(found) == 5


def test_cases_that_differ_between_plain_runs_are_left_out_and_named() -> None:
    """A flaky case, a file with a date in it, a case that is not always there; whatever the others have."""
    second = Run(
        "plain run 2", 1, {"a": "failed", "b": "failed", "c": "passed", "e": "passed"}, {"out": "34cd"}
    )
    found = compare([PLAIN[0], second], [Run("copy", 1, CASES | {"e": "failed"}, {"out": "ffff"})])
    assert found.differences == ()
    assert found.unsteady == ("case a", "case e", "file out")


def test_one_more_plain_run_can_show_that_a_case_is_flaky() -> None:
    """In that case there is no difference."""
    other = Run("copy", 1, CASES | {"a": "failed"}, {"out": "12ab"})
    assert lines(other) != []
    assert lines(other, plain=[*PLAIN, Run("plain run 3", 1, other.cases, other.files)]) == []


def test_one_plain_run_does_not_reveal_unsteady_cases() -> None:
    """It is refused."""
    with pytest.raises(ValueError, match="two plain runs"):
        compare(PLAIN[:1], [])
