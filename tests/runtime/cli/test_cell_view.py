"""Results of cells on a terminal: tables of pages, sixels, kept outputs, help with missing modules."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from PIL import Image

from holdfast.runtime.cli import cell_pictures, cell_view
from holdfast.runtime.cli.cell_view import CellView

PAGE = """<p>before</p><table><thead><tr><th></th><th>size &amp; unit</th></tr></thead>
<tr><td>a<td>1 <b>kg</b></tr><tr><td colspan=2>both</td></tr><tr><td>x</td><td>y</td><td>z</td></tr></table>
<script>evil</script><table></table>"""


def test_a_table_of_a_page_becomes_rows() -> None:
    """Missing end tags are as HTML allows them, all rows are equally long, and the rest is left out."""
    assert cell_pictures.tables(PAGE) == [
        [("", "size & unit", ""), ("a", "1 kg", ""), ("both", "", ""), ("x", "y", "z")]
    ]


@pytest.mark.parametrize(
    "page",
    [
        "",
        "<table",
        "</table></td><td>x",
        "<table><td>1<table><td>2</table>",
        "<table><tr><td colspan=999999999999>x",
        "<table>" * 3000,
        "<table><tr>" + "<td>x" * 5000,
        "<table>" + "<tr><td>x" * 5000,
        "<table><tr><td><script>" * 50,
        "<table><td>" + "<a " * 300_000,
        "<table><td>" + "<!--" * 250_000,
        "<table><td>" + "&lt" * 300_000,
        "<table><td>x</table>" * 50_000,
    ],
)
def test_a_hostile_page_is_bounded(page: str) -> None:
    """A session's HTML takes little room, and never fails."""
    found = cell_pictures.tables(page)
    assert len(found) <= cell_pictures.TABLES_MOST
    for table in found:
        assert len(table) <= cell_pictures.ROWS_MOST
        assert all(len(row) <= cell_pictures.COLUMNS_MOST for row in table)


def png(picture: Image.Image) -> bytes:
    """Return a picture as a PNG."""
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def test_sixels_have_each_pixel_once() -> None:
    """Two colors in stripes of one row: the bits of each color in a band, with counts of equal columns."""
    picture = Image.new("RGB", (10, 6), "white")
    for row in (1, 3, 5):
        picture.paste((255, 0, 0), (0, row, 10, row + 1))
    drawn = cell_pictures.sixels(png(picture))
    assert drawn is not None
    assert drawn.startswith('\x1bPq"1;1;10;6#0;2;')
    assert drawn.endswith("-\x1b\\")
    bands = re.findall(r"!10(.)", drawn)
    assert sorted(ord(each) - 0x3F for each in bands) == [0b010101, 0b101010]
    assert re.fullmatch(r"[\x20-\x7e]*", drawn[2:-2])


def test_a_picture_that_cannot_be_read_is_not_drawn() -> None:
    """Neither damaged ones nor ones of more pixels than are decoded."""
    assert cell_pictures.sixels(b"\x89PNG\r\n\x1a\nnothing") is None
    assert cell_pictures.sixels(png(Image.new("1", (7000, 7000)))) is None


@pytest.mark.parametrize(
    ("name", "value", "suggested"),
    [
        ("ModuleNotFoundError", "No module named 'numpy'", "pip install numpy'`, or begin"),
        ("ModuleNotFoundError", "No module named 'PIL.Image'", "pip install pillow'`, or begin"),
        ("ModuleNotFoundError", "No module named 'yaml'", "pip install pyyaml'`"),
        ("ModuleNotFoundError", "No module named 'a; rm -rf /'", ""),
        ("ModuleNotFoundError", "\x1b[2J", ""),
        ("ImportError", "No module named 'numpy'", ""),
    ],
)
def test_a_missing_module_has_a_way_to_get_it(name: str, value: str, suggested: str) -> None:
    """A command to copy; a name that no module can have is not repeated."""
    line = cell_view.missing_module(name, value, "work")
    assert suggested in line if suggested else line == ""


def test_outputs_of_the_journal_are_shown_as_the_cell_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Streams, results, exceptions and pages; entries that are damaged are passed over."""
    page = {"text/html": PAGE, "text/plain": "<IPython.core.display.HTML object>"}
    CellView("work", str(tmp_path)).kept(
        [
            7,
            {"output_type": "stream", "name": "stdout", "text": "one\x1b]0;x\x07\n"},
            {"output_type": "execute_result", "data": {"text/plain": "2"}},
            {"output_type": "display_data", "data": page},
            {"output_type": "error", "ename": "ModuleNotFoundError", "evalue": "No module named 'torch'"},
            {"output_type": "stream", "text": 7},
        ]
    )
    out, err = capsys.readouterr()
    assert out.splitlines()[:3] == ["one", "2", "      size & unit"]
    assert (tmp_path / "picture-1.html").read_text() == PAGE
    assert err.splitlines()[1:] == [
        "ModuleNotFoundError: No module named 'torch'",
        "holdfast: torch is not in the session: `holdfast exec work 'pip install torch'`",
    ]
