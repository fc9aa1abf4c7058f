"""The tables of an HTML page as rows of text, which a terminal can show.  Pure.

The page is a session's. It is read in time in proportion to its length, which the parser of Python's library
is not (CVE-2025-6069), and nothing of it but the text of cells is used.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

READ_MOST = 1 << 20
"""Characters of a page."""
ROWS_MOST, COLUMNS_MOST, TABLES_MOST = 60, 30, 5
"""Of each table that is shown, and of a page."""
CELL_MOST = 200
"""Characters of a cell."""
_PIECE = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]{0,15})([^<>]{0,1000})>|<[!?][^<>]{0,1000}>|[^<]+|<")
"""A tag, a comment or declaration, text, or a sign that begins neither. Each repetition is bounded."""
_SPAN = re.compile(r"\bcolspan\s{0,3}=\s{0,3}[\"']?([0-9]{1,3})\b", re.IGNORECASE)
_UNSEEN = ("script", "style", "template")

Row = tuple[str, ...]


def tables(page: str) -> list[list[Row]]:
    """Return the tables of a page, each as rows of equal length; the first row is the heading."""
    found = [rows for rows in _TableReader().read(page[:READ_MOST]) if any(rows)]
    return [_even(rows) for rows in found[:TABLES_MOST]]


def _even(rows: list[list[str]]) -> list[Row]:
    width = max(map(len, rows))
    return [tuple(row + [""] * (width - len(row))) for row in rows]


def _pieces(page: str) -> Iterator[tuple[str, str, str]]:
    """Yield tags, as `td` or `/td` with their attributes, and text with an empty name."""
    for found in _PIECE.finditer(page):
        if found[2] is not None:
            yield found[1] + found[2].lower(), found[3], ""
        elif not found[0].startswith("<"):
            yield "", "", found[0]


class _TableReader:
    """Collects the cells of tables; a table within a cell is text of that cell."""

    def __init__(self) -> None:
        self._tables: list[list[list[str]]] = []
        self._depth = 0
        self._unseen = ""
        self._cell: list[str] | None = None
        self._span = 1
        self._full = False

    def read(self, page: str) -> list[list[list[str]]]:
        """Return the rows of each table."""
        for tag, attributes, text in _pieces(page):
            if self._unseen:
                self._unseen = "" if tag == f"/{self._unseen}" else self._unseen
            elif tag in _UNSEEN:
                self._unseen = tag
            elif tag == "table":
                self._depth += 1
                if self._depth == 1:
                    self._tables.append([])
            elif self._depth == 1 and tag:
                self._take(tag, attributes)
            elif self._depth and tag == "/table":
                self._depth -= 1
            elif self._cell is not None and text:
                self._cell.append(text)
        self._end_cell()
        return self._tables

    def _take(self, tag: str, attributes: str) -> None:
        if tag in ("tr", "td", "th", "/tr", "/td", "/th", "/table"):
            self._end_cell()
        if tag == "tr":
            self._begin_row()
        elif tag in ("td", "th"):
            self._cell = []
            span = _SPAN.search(attributes)
            self._span = int(span[1]) if span else 1
        elif tag == "/table":
            self._depth = 0

    def _begin_row(self) -> None:
        self._full = len(self._tables[-1]) >= ROWS_MOST
        if not self._full:
            self._tables[-1].append([])

    def _end_cell(self) -> None:
        if self._cell is None:
            return
        text = " ".join(html.unescape("".join(self._cell)).split())[:CELL_MOST]
        self._cell = None
        if not self._tables[-1]:
            self._begin_row()
        row = self._tables[-1][-1]
        if not self._full:
            row += [text, *[""] * (self._span - 1)][: COLUMNS_MOST - len(row)]
