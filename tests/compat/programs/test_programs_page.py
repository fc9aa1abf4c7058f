"""The outcomes of programs, as the page of the documentation."""

import re
from datetime import date

from tests.compat.programs import catalog, page
from tests.compat.programs.outcome import STEPS, Outcome, all_well

WORKS = Outcome("good", "f", "counts | sums", passed=STEPS, reason="7 rounds")
REFUSED = Outcome("gdb", "f", "debugs", passed=("started",), refused=True, reason="gdb (pid 7) traces spin")
RED = Outcome("bad", "f", "fails", passed=("started", "captured"), reason="cannot <do> `it`")
FOUND = [WORKS, REFUSED, RED]
VERSIONS = {"CRIU": "4.3", "Linux": "6.18"}


def test_a_result_is_one_of_three() -> None:
    """Every program that neither passed all steps nor was refused is red."""
    assert [one.word for one in FOUND] == ["works", "refused", "red"]
    assert Outcome("x", "f", "d", passed=STEPS[:-1]).word == "red"
    assert all_well([WORKS, REFUSED])
    assert not all_well([WORKS, RED])


def test_rows_mark_the_passed_steps() -> None:
    """One mark for each step."""
    text = page.page(FOUND, date(2026, 11, 21), VERSIONS)
    assert "| bad | fails | yes | – | – | – | **red** |" in text
    assert "| yes | yes | yes | yes | works | 7 rounds |" in text
    assert "| gdb | debugs | – | – | – | – | **refused** |" in text
    assert page.counts(FOUND) == "3 programs: 1 work, 1 are refused by name, 1 are red."


def test_the_page_is_valid_markdown() -> None:
    """Every row has as many cells as the heading, whatever programs print; date and versions are given."""
    text = page.page(FOUND, date(2026, 11, 21), VERSIONS)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 5
    assert {line.replace("\\|", "").count("|") for line in rows} == {9}
    assert "Run on 2026-11-21: CRIU 4.3, Linux 6.18." in text
    assert "cannot &lt;do> 'it'" in text


def test_the_documentation_matches_the_catalog() -> None:
    """`docs/programs.md` has the head that is written today, and a row for each program."""
    text = page.FILE.read_text(encoding="utf-8")
    assert text.startswith(page.page([], date(2026, 11, 21), {}).partition("## Table")[0])
    _, *rows = re.findall(r"^\| ([a-z0-9-]+) \|", text, re.MULTILINE)
    assert rows == [program.name for program in catalog.PROGRAMS]
