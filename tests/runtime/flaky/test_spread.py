"""The classification of runs, and its description."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.runtime.flaky import spread
from holdfast.runtime.flaky.spread import Run, Spread, differ, grouped, to_keep


def run(number: int, code: int = 0, output: str = "", end: Any = "exit", **more: Any) -> Run:
    lines = spread.output_lines(output.encode())
    return Run(number, end, code, output=tuple(lines), digest=spread.digest(lines), **more)


def spread_of(*runs: Run, **more: Any) -> Spread:
    return Spread("make test", "before", len(runs), runs, **more)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("at 0x7f3bd2168000", "at 0x55d0aa"),
        ("1 passed in 0.02s", "1 passed in 1.5s"),
        ("took 12 ms, 3 seconds", "took 99 ms, 1 seconds"),
        ("2026-11-21T18:39:13.653Z start", "2026-11-21T18:40:00Z start"),
        ("18:39:13,653 WARN", "07:00:01,001 WARN"),
        ("at 1795291330.5243556, 1795291330524", "at 1795291332.7, 1795291332709"),
        ("id 6fd5c817b53bec8c", "id cb54e7694d121502"),
        ("6b1f0c5e-8a51-4a3c-9b53-0a8b8a4f3f00", "11111111-8a51-4a3c-9b53-0a8b8a4f3f00"),
        ("/tmp/tmpab12/x: no", "/tmp/tmpzz99/x: no"),
        ("pid 123 died", "pid 9 died"),
        ("[1] 309", "[1] 417"),
        ("listening on 127.0.0.1:43211", "listening on 127.0.0.1:50000"),
        ("10%\r50%\r100%", "100%"),
        ("\x1b[31mred\x1b[0m", "red"),
    ],
)
def test_differences_between_any_two_runs_do_not_count(one: str, other: str) -> None:
    """Times, addresses, process ids, temporary names, progress bars, colors."""
    digests = {spread.digest(spread.output_lines(text.encode())) for text in (one, other)}
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1 passed", "2 passed"),
        ("expected 3", "expected 4"),
        ("ok", "ok\nmore"),
        ("version 1.2", "version 1.3"),
    ],
)
def test_other_numbers_count(one: str, other: str) -> None:
    """The findings of a test are not masked away."""
    digests = {spread.digest(spread.output_lines(text.encode())) for text in (one, other)}
    assert len(digests) == 2


def test_the_names_of_a_copy_do_not_count() -> None:
    """Each fork has its own name and id."""
    assert spread.masked("I am try-1 (abc)", ("try-1", "abc")) == spread.masked(
        "I am try-2 (x)", ("try-2", "x")
    )


def test_identical_runs_are_deterministic() -> None:
    """Also if it fails, and with outputs that differ only in time."""
    found = spread_of(*(run(number, 1, f"failed in 0.{number}s") for number in range(1, 21)))
    assert found.text == "deterministic: 20 of 20 exit 1"
    assert found.deterministic
    assert found.differences == []


def test_mixed_runs_are_flaky_and_their_kinds_are_counted() -> None:
    """By their end and their output; output of passing runs does not count."""
    found = spread_of(
        *(run(number, 0, f"value {number}") for number in range(1, 14)),
        *(run(number, 1, "AssertionError") for number in range(14, 20)),
        run(20, 0, "Timeout", end="timeout"),
    )
    assert found.text == "flaky: 13 pass, 7 fail (2 kinds)"
    assert [(kind.status, len(kind.runs)) for kind in found.kinds] == [
        ("exit 0", 13),
        ("exit 1", 6),
        ("timeout", 1),
    ]


def test_the_first_line_that_differs_is_shown_unmasked() -> None:
    """With the line of the most common kind next to it."""
    found = spread_of(
        run(1, 0, "start 0.1s\nvalue 1\nend"),
        run(2, 0, "start 0.2s\nvalue 1\nend"),
        run(3, 1, "start 9s\nvalue 2\x07"),
    )
    (difference,) = found.differences
    assert (difference.line, difference.runs, difference.texts) == (2, (1, 3), ("value 1", "value 2"))


def test_a_longer_output_differs_where_the_other_ended() -> None:
    """One side has no text there."""
    found = differ(run(1, output="a"), run(2, output="a\nb"))
    assert found is not None
    assert (found.line, found.texts) == (2, (None, "b"))


def test_outputs_of_passing_runs_can_be_compared() -> None:
    """On request."""
    runs = (run(1, 0, "a"), run(2, 0, "b"), run(3, 0, "a"))
    assert spread_of(*runs).text == "deterministic: 3 of 3 exit 0"
    found = spread_of(*runs, compare_output=True)
    assert found.text == "deterministic: 3 of 3 exit 0, with 2 kinds of output"


def test_one_of_each_kind_is_kept_first() -> None:
    """Then a second of the rarer ones, within a limit."""
    runs = [run(1), run(2), run(3, 1, "x"), run(4), run(5, 1, "x"), run(6, 2, "y"), run(7, 1, "x")]
    assert to_keep(runs, most=8) == [1, 3, 5, 6]
    assert to_keep(runs, most=2) == [1, 3]
    assert len(grouped(runs)) == 3


def test_the_end_of_a_run_is_put_into_words() -> None:
    """Each end has its own."""
    ends = [
        run(1, 3),
        run(2, 11, end="signal"),
        run(3, end="timeout"),
        run(4, end="waiting", detail="password"),
        run(5, end="died", detail="out of memory"),
    ]
    assert [one.status for one in ends] == [
        "exit 3",
        "signal 11",
        "timeout",
        "waits for password",
        "its session ended (out of memory)",
    ]


def test_programs_get_everything() -> None:
    """Kinds by the numbers of their runs, and the kept copies."""
    told = spread_of(run(1), run(2, 1, "x")).keeping({2: "before-run-2"}).as_dict()
    assert told["kinds"] == [
        {"status": "exit 0", "passed": True, "runs": [1]},
        {"status": "exit 1", "passed": False, "runs": [2]},
    ]
    assert [one["kept"] for one in told["runs"]] == [None, "before-run-2"]
    assert told["deterministic"] is False
