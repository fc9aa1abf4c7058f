"""What came of programs, as a table for people and for the documentation."""

from datetime import date

from holdfast.runtime.programs import table
from holdfast.runtime.programs.outcome import STEPS, Outcome, all_well

WORKS = Outcome("good", "f", "counts | sums", passed=STEPS, reason="7 rounds")
REFUSED = Outcome("gdb", "f", "debugs", passed=("started",), refused=True, reason="gdb (pid 7) traces spin")
RED = Outcome("bad", "f", "fails", passed=("started", "captured"), reason="cannot <do> `it`")


def test_a_result_is_one_of_three() -> None:
    """Red is whatever neither went all the way nor was refused."""
    assert [one.word for one in (WORKS, REFUSED, RED)] == ["works", "refused", "red"]
    assert Outcome("x", "f", "d", passed=STEPS[:-1]).word == "red"
    assert all_well([WORKS, REFUSED])
    assert not all_well([WORKS, RED])


def test_rows_say_how_far_each_got() -> None:
    """One mark for each step."""
    assert table.rows([RED])[0][:6] == ("red", "bad", "yes", "-", "-", "-")
    assert table.rows([WORKS])[0][2:6] == ("yes", "yes", "yes", "yes")
    assert table.counts([WORKS, REFUSED, RED]) == "3 programs: 1 work, 1 are refused by name, 1 are red."


def test_the_page_is_sound_markdown() -> None:
    """Every row has as many cells as the heading, whatever programs say; date and versions are told."""
    page = table.page([WORKS, REFUSED, RED], date(2026, 11, 21), {"CRIU": "4.3", "Linux": "6.18"})
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len(rows) == 5
    assert {line.replace("\\|", "").count("|") for line in rows} == {9}
    assert "Run on 2026-11-21: CRIU 4.3, Linux 6.18." in page
    assert "cannot &lt;do> 'it'" in page


def test_programs_read_the_same_result() -> None:
    """Each step is a field of its own."""
    found = REFUSED.as_dict()
    assert (found["result"], found["started"], found["captured"]) == ("refused", True, False)
