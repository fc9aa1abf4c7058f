"""The output of test runners, read into cases."""

import pytest
from tests.compat.projects import readers
from tests.compat.projects.readers import READERS

JUNIT = """<?xml version="1.0"?><testsuites><testsuite name="s" tests="5">
<testcase classname="t.A" name="one" time="0.1"/>
<testcase classname="t.A" name="two"><failure>why</failure></testcase>
<testcase classname="t.A" name="three"><error/></testcase>
<testcase classname="t.A" name="one"><skipped/></testcase>
<testcase name="alone"><system-out>text</system-out></testcase></testsuite></testsuites>"""
NODE = """TAP version 13
# Subtest: outer
    # Subtest: inner
    ok 1 - inner
      ---
      duration_ms: 0.679
      ...
    not ok 2 - other
    1..2
not ok 1 - outer
# Subtest: later
ok 2 - later # SKIP no network
ok 3 - kept # TODO
1..3
"""
REGRESS = """# using temp instance on port 58928
ok 1         - test_setup                               112 ms
# parallel group (2 tests):  boolean char
ok 2         + boolean                                   45 ms
not ok 3     + char                                      38 ms
"""
GO = """# some/package
{"Action":"start","Package":"sort"}
{"Action":"pass","Package":"sort","Test":"TestInts","Elapsed":0}
{"Action":"output","Package":"sort","Output":"ok"}
{"Action":"fail","Package":"sort","Test":"TestSub/one"}
{"Action":"skip","Package":"sort","Test":"TestX"}
{"Action":"fail","Package":"sort","Elapsed":0.2}
[1, 2]
"""
CARGO = """     Running unittests src/lib.rs (target/debug/deps/a-81fe)
test works ... ok
     Running tests/after.rs (target/debug/deps/after-ec5a)
test works ... FAILED
test slow ... ignored, takes long
   Doc-tests a
test src/lib.rs - f (line 3) ... ok
test result: ok. 1 passed; 0 failed
"""
EXPECTED = {
    "junit": (
        JUNIT,
        {
            "t.A::one": "passed",
            "t.A::two": "failed",
            "t.A::three": "failed",
            "t.A::one (2)": "skipped",
            "alone": "passed",
        },
    ),
    "tap": (
        NODE,
        {
            "outer > inner": "passed",
            "outer > other": "failed",
            "outer": "failed",
            "later": "skipped",
            "kept": "todo, passed",
        },
    ),
    "go": (
        GO,
        {"sort.TestInts": "passed", "sort.TestSub/one": "failed", "sort.TestX": "skipped", "sort": "failed"},
    ),
    "cargo": (
        CARGO,
        {
            "unittests src/lib.rs: works": "passed",
            "tests/after.rs: works": "failed",
            "tests/after.rs: slow": "skipped",
            "Doc-tests: src/lib.rs - f (line 3)": "passed",
        },
    ),
    "automake": (
        "PASS: helin-segv\nFAIL: keep\nmake[1]: x\nXFAIL: hufts\n# PASS: 3\nSKIP: list",
        {"helin-segv": "passed", "keep": "failed", "hufts": "XFAIL", "list": "skipped"},
    ),
    "unittest": (
        "test_a (m.A.test_a) ... ok\ntest_b (m.A.test_b) ... FAIL\n"
        "test_c (m.A.test_c) ... skipped 'why'\nRan 3",
        {"test_a (m.A.test_a)": "passed", "test_b (m.A.test_b)": "failed", "test_c (m.A.test_c)": "skipped"},
    ),
    "redis": (
        "[\x1b[0;32;49mok\x1b[0m]: LPOS basic usage (3 ms)\n[err]: SET in tests/a.tcl\n"
        "[testing unit]: x\n[ok]: a",
        {"LPOS basic usage": "passed", "SET in tests/a.tcl": "failed", "a": "passed"},
    ),
    "testfixture": (
        "select1-1.1... Ok\nselect1-1.2...\n! select1-1.2 expected: [1]\nwal-3... Omitted\n0 errors",
        {"select1-1.1": "passed", "select1-1.2": "failed", "wal-3": "skipped"},
    ),
}


def test_every_reader_is_tried() -> None:
    """One added without a sample fails here."""
    assert EXPECTED.keys() == READERS.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_cases_are_read_with_their_outcomes(name: str) -> None:
    """Other lines are left out, repeated names are kept apart."""
    text, cases = EXPECTED[name]
    assert READERS[name](text) == cases


def test_regression_tests_of_postgresql_lose_their_times() -> None:
    """Otherwise names would change with each run."""
    assert READERS["tap"](REGRESS) == {"test_setup": "passed", "boolean": "passed", "char": "failed"}


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("text", ["", "\0\xff\ufffd", "<a", "ok", "{"])
def test_truncated_output_gives_few_cases_and_no_error(name: str, text: str) -> None:
    """A run that died leaves anything."""
    assert len(READERS[name](text)) <= 1


def test_a_reader_gives_plain_cases() -> None:
    """The type that the comparison takes."""
    cases: readers.Cases = READERS["tap"]("ok 1\nok 2")
    assert cases == {"1": "passed", "2": "passed"}
