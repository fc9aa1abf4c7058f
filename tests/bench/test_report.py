import pytest
from tests.bench.rows import ABOUT, ALL

from bench import report


def test_every_row_has_a_line() -> None:
    """The table has a line for each row and one for each family, and names the machine."""
    text = report.figures(ALL, ABOUT)

    assert text.count("\n|") == 2 + len(ALL) + 4
    assert "2030-01-02" in text
    assert "runsc> \\| it is missing" in text


def test_figures_are_replaced_between_the_markers() -> None:
    """Text around the markers stays; placing twice is placing once."""
    begin, end = report.BEGIN.format("figures"), report.END.format("figures")
    page = f"before\n{begin}\nold\n{end}\nafter\n"
    placed = report.place(page, "new")

    assert placed == f"before\n{begin}\n\nnew\n\n{end}\nafter\n"
    assert report.place(placed, "new") == placed


def test_a_page_without_markers_is_left_alone() -> None:
    """Without a place for the figures, none is guessed."""
    with pytest.raises(ValueError, match="lacks"):
        report.place("no place", "new")
