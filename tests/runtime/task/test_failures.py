"""Kinds of failures: on a corpus of real ones, by the facts of their ends, and by a user's rules."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from bench import failure_table
from holdfast.base.home import Home
from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.task import failure_rule
from holdfast.runtime.task.classify_failure import (
    Evidence,
    classify,
    quoted_line,
    read_report,
    report_failure,
)
from holdfast.runtime.task.failure_rule import parse_rules
from holdfast.runtime.task.failure_rules import RULES

PAGE = Path(__file__).parents[3] / "docs" / "failures.md"
JUNIT = b"""<testsuites><testsuite tests="3"><testcase classname="a.T" name="x"/>
<testcase classname="a.T" name="y"><failure message="1 != 2">trace</failure></testcase>
<testcase name="z"><error message="boom"/></testcase></testsuite></testsuites>"""


def kind(**known: Any) -> str | None:
    found = classify(Evidence(**known))
    return None if found is None else found.failure_type


def test_the_page_has_the_accuracy_on_the_corpus() -> None:
    """`python -m bench.failure_table` writes it; the corpus has at least 60 real failures."""
    cases = failure_table.cases()
    assert len(cases) >= 60
    assert failure_table.table(cases) in PAGE.read_text()


@pytest.mark.parametrize(
    ("part", "least"), [("first", 0.95), ("later", 0.9), ("held", 0.7), ("tools", 0.95), ("fresh", 0.95)]
)
def test_accuracy_does_not_fall(part: str, least: float) -> None:
    cases = [case for case in failure_table.cases() if case.part == part]
    right = sum(case.right for case in cases)
    assert right >= least * len(cases), [case for case in cases if not case.right]


def test_no_failure_is_called_passed() -> None:
    """Whatever its tool printed last; a hundred of them were run after the rules were written."""
    cases = [case for case in failure_table.cases() if case.part == "fresh"]
    assert len(cases) >= 100
    assert [case.command for case in cases if case.found == "none"] == []


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("starting\nerror: the key is wrong\ncleaning up\nbye\n", "error: the key is wrong"),
        (
            "a\nTraceback: none\nValidationError: no field x\n    at f (a.js:1:2)\nNode.js v20\n",
            "Traceback: none",
        ),
        ("loading\ncannot open the queue\ndone in 3 ms", "cannot open the queue"),
        ("0 errors, 0 failures\nthe deadline has passed\n", "the deadline has passed"),
        ("working\nthe deadline has passed\nmake: *** [Makefile:2: all] Error 3", "the deadline has passed"),
        ("\u2819\x1b[1G\x1b[0K\u2839\x1b[1G\x1b[0Ksomething odd\n\u2819\x1b[1G\x1b[0K", "something odd"),
        ("", ""),
        ("====\n", "===="),
    ],
)
def test_an_unrecognized_failure_is_quoted_by_its_most_telling_line(output: str, line: str) -> None:
    """The first that calls itself an error, else one that speaks of one, else the last that is not a hint."""
    assert quoted_line(Evidence(exit_code=9, output=output).tail) == line


def test_an_output_that_is_cut_begins_with_a_whole_line() -> None:
    """A sequence of the terminal that is cut in the middle would be text."""
    text = "\x1b[31merror\x1b[0m: no\n" * 2000
    for length in range(len(text) - 30, len(text)):
        assert set(Evidence(exit_code=1, output=text[:length]).tail.splitlines()[:-1]) == {"error: no"}


def test_every_kind_has_an_observation_and_advice() -> None:
    for case in failure_table.cases():
        found = classify(case.evidence)
        assert found is not None, case
        assert found.seen
        assert found.suggested_focus
        assert "{what}" not in found.suggested_focus
        assert all("\n" not in text and len(text) <= 250 for text in found.as_dict().values())


def test_a_passed_test_is_not_a_failure() -> None:
    """Whatever it printed."""
    assert classify(Evidence(exit_code=0, output="MemoryError\nFAILED a::b")) is None
    assert classify(Evidence(exit_code=0, events=frozenset({"oom"}))) is None, "another program was killed"


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({"exit_code": 137, "events": frozenset({"oom"}), "output": "FAILED a::b"}, "out_of_memory"),
        ({"exit_code": None, "events": frozenset({"kernel_died"})}, "kernel_died"),
        ({"waiting": "password", "output": "Password: "}, "waiting_for_input"),
        ({"exit_code": 130, "timed_out": True, "output": "KeyboardInterrupt"}, "timeout"),
        ({"exit_code": 139, "output": "Segmentation fault"}, "crashed"),
        ({"exit_code": 134, "output": "a: a.c:3: main: Assertion `x' failed."}, "assertion_failed"),
        ({"signal": 15, "exit_code": 143}, "killed"),
        ({"exit_code": 127, "output": ""}, "command_not_found"),
        ({"exit_code": 3, "output": "well"}, "unknown"),
        ({"exit_code": None, "error": "ModuleNotFoundError: No module named 'x'"}, "dependency_missing"),
        ({"exit_code": None, "error": "ValueError: no"}, "exception"),
        ({"exit_code": 1, "report": JUNIT, "output": "No space? no"}, "tests_failed"),
    ],
)
def test_an_end_counts_before_output(known: dict[str, Any], expected: str) -> None:
    assert kind(**known) == expected


def test_a_report_of_tests_names_the_first_failure() -> None:
    found = read_report(JUNIT)
    assert found is not None
    assert (found.tests, found.failed, found.first, found.message) == (3, 2, "a.T::y", "1 != 2")


@pytest.mark.parametrize(
    "report",
    [
        b"",
        b"<testsuite",
        b"<html/>",
        b'<!DOCTYPE a [<!ENTITY b "cc">]><testsuite><testcase><error message="&b;"/></testcase></testsuite>',
        b"<testsuite>" + b"<testcase/>" * 200_000,
        "<!DOCTYPE a><testsuite/>".encode("utf-16"),
        b'<?xml version="1.0" encoding="utf-7"?>+ADwAIQ-DOCTYPE a+AD4APA-testsuite/+AD4-',
    ],
)
def test_a_hostile_report_says_nothing(report: bytes) -> None:
    """Entities, lies about the encoding, and excess."""
    assert read_report(report) is None


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (None, "report_missing"),
        (b"", "report_unreadable"),
        (b"<html/>", "report_unreadable"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><testsuite><testcase/></testsuite>', "report_unreadable"),
        (b"<testsuite>" + b"<testcase/>" * 200_000 + b"</testsuite>", "report_unreadable"),
        (b"<testsuite/>", "no_tests"),
        (JUNIT, "tests_failed"),
        (b'<testsuites><testsuite><testcase name="x"/></testsuite></testsuites>', None),
    ],
)
def test_a_report_can_fail_a_command_that_passed(report: bytes | None, expected: str | None) -> None:
    """If it is missing, hostile, empty, or has failures; its text is shown as plain text."""
    found = report_failure(report, "out/\x1b[2J.xml")
    assert (found and found.failure_type) == expected
    assert found is None or "\x1b" not in "".join(found.as_dict().values())


def test_hostile_output_costs_little_and_shows_no_controls() -> None:
    """Its last 16 KiB are searched, by expressions whose time does not explode."""
    for hostile in (
        "\x1b]52;c;AAAA\x07\x1b[31mMemoryError \x9b31m\u202e",
        "a" * 10_000_000,
        "\x1b[" * 9000,
        "\0" * 9,
    ):
        found = classify(Evidence(exit_code=1, output=hostile))
        assert found is not None
        assert all(text.isprintable() for text in found.as_dict().values())


def test_a_users_rule_comes_first() -> None:
    rules = parse_rules(
        [
            {
                "name": "license",
                "failure_type": "license_missing",
                "pattern": "license (?P<what>\\w+) expired",
                "focus": "renew {what}",
                "command": "^simulate",
                "codes": [4],
            }
        ]
    )
    text = "MemoryError\nerror: license gold expired"
    found = classify(Evidence(command="simulate x", exit_code=4, output=text), rules)
    assert found is not None
    assert (found.failure_type, found.suggested_focus) == ("license_missing", "renew gold")
    assert found.failure_detail == "error: license gold expired"
    for other in (
        Evidence(command="x", exit_code=4, output=text),
        Evidence(command="simulate", exit_code=1, output=text),
    ):
        assert getattr(classify(other, rules), "failure_type", None) == "out_of_memory"


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ({}, "not a list"),
        ([{}] * 101, "at most 100"),
        (["x"], "rule 1: it is not an object"),
        ([{"name": "a", "failure_type": "b", "pattern": "(", "focus": "d"}], "'pattern' cannot be used"),
        ([{"name": "a", "failure_type": "b", "pattern": "c" * 2001, "focus": "d"}], "more than 2000"),
        ([{"name": "a", "failure_type": "b", "pattern": "(?=c)", "focus": "d"}], "'pattern' cannot be used"),
        ([{"name": "", "failure_type": "b", "pattern": "c", "focus": "d"}], "its 'name': it is empty"),
        ([{"name": "a", "failure_type": "b", "pattern": "c"}], "'focus' is not a text"),
        ([{"name": "a", "failure_type": "b", "pattern": "c", "focus": "d", "codes": ["1"]}], "'codes'"),
        ([{"name": "a", "failure_type": "b", "pattern": "c", "focus": "d", "last": 1}], "'last'"),
        ([{"name": "a", "failure_type": "b", "pattern": "c", "focus": "d", "x": 1}], "not have a field 'x'"),
    ],
)
def test_a_rule_that_cannot_be_used_is_named(rules: Any, why: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(why)) as refused:
        parse_rules(rules)
    assert "\n" not in str(refused.value)


def test_a_homes_rules_are_read_from_its_file(tmp_path: Path) -> None:
    """Others must not be able to change them; nonsense is named with the file."""
    home = Home(tmp_path / "home").create()
    assert failure_rule.read_rules(home) == ()
    path = home.root / failure_rule.FILE
    path.write_text('[{"name": "a", "failure_type": "b", "pattern": "c", "focus": "d"}]')
    path.chmod(0o600)
    (rule,) = failure_rule.read_rules(home)
    assert (rule.name, rule.failure_type) == ("a", "b")
    path.chmod(0o620)
    with pytest.raises(StoreError, match="others can change it"):
        failure_rule.read_rules(home)
    path.chmod(0o600)
    for text, why in (("[", "not valid JSON"), ("[{}]", "rule 1"), (" " * (2 << 20), "more than 1 MiB")):
        path.write_text(text)
        with pytest.raises(InvalidArgument, match=why):
            failure_rule.read_rules(home)


def test_the_table_has_a_name_for_each_rule() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
