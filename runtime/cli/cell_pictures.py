"""Pictures and pages that cells show: kept as files, named in one line, and drawn in terminals that can.

The bytes are a session's. A picture's header is read, and nothing is decoded here: a terminal that draws it
does so as a browser would; only sixels are made of the pixels, within the bounds of `plots` (DEC's
VT330/VT340 Programmer Reference Manual, volume 2, chapter 14). Tables of a page are shown as rows of text: it
is read in time in proportion to its length, which the parser of Python's library is not (CVE-2025-6069), and
nothing of it but the text of cells is used. Knows no kernel and no session.
"""

from __future__ import annotations

import base64
import binascii
import html
import importlib.util
import io
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count, groupby
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.runtime.cli import printing

if TYPE_CHECKING:
    from PIL import Image

WIDEST = 800
"""Pixels of the longer side."""
COLORS = 64
_BAND = 6
"""Rows of pixels in one row of sixels."""
_ZERO = 0x3F
"""The character without a pixel."""
_REPEATED = 4
"""So many equal characters are shorter with a count."""


def sixels(png: bytes) -> str | None:
    """Return the sequence that draws a picture; None if it cannot be read."""
    from holdfast.runtime.mcp import plots  # needs Pillow

    small = plots.small_png({"image/png": base64.b64encode(png).decode("ascii")})
    return None if small is None else "".join(_drawn(_few_colors(small)))


def _few_colors(png: bytes) -> Image.Image:
    from PIL import Image

    with Image.open(io.BytesIO(png), formats=["PNG"]) as opened:
        picture = opened.convert("RGBA")
    paper = Image.new("RGBA", picture.size, "white")
    paper.alpha_composite(picture)
    paper.thumbnail((WIDEST, WIDEST))
    return paper.convert("RGB").quantize(COLORS)


def _drawn(picture: Image.Image) -> Iterator[str]:
    width, height = picture.size
    yield f'\x1bPq"1;1;{width};{height}'
    palette = picture.getpalette() or []
    for number, at in enumerate(range(0, len(palette) - 2, 3)):
        red, green, blue = (round(part * 100 / 255) for part in palette[at : at + 3])
        yield f"#{number};2;{red};{green};{blue}"
    pixels = picture.tobytes()
    for top in range(0, height, _BAND):
        colors: dict[int, bytearray] = {}
        for bit, row in enumerate(range(top, min(top + _BAND, height))):
            for column, color in enumerate(pixels[row * width : (row + 1) * width]):
                colors.setdefault(color, bytearray(width))[column] |= 1 << bit
        yield "$".join(f"#{color}{_packed(bits)}" for color, bits in sorted(colors.items())) + "-"
    yield "\x1b\\"


def _packed(bits: bytearray) -> str:
    """Return the characters of one color in a band, with counts of equal ones."""
    parts = []
    for value, run in groupby(bits):
        count, char = len(list(run)), chr(_ZERO + value)
        parts.append(f"!{count}{char}" if count >= _REPEATED else char * count)
    return "".join(parts)


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


SIDE_MOST = 10_000
"""Pixels of a side: more is kept, and not drawn."""
DRAWN_MOST = 4 << 20
"""Bytes of a picture that is drawn."""
KEPT_MOST = 100
"""Pictures in the home's own folder; the oldest are deleted."""
_PNG = b"\x89PNG\r\n\x1a\n"
_CHUNK = 4096
"""Bytes of one escape sequence, as the protocol of kitty demands."""
TYPES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/svg+xml": ".svg",
    "text/html": ".html",
}
_TEXTS = ("image/svg+xml", "text/html")
"""The types that Jupyter's messages have as text, and not in base64."""
_PLACEHOLDER = "<IPython.core.display."
"""The beginning of the text of a display that does not have one of its own."""


class CellPictures:
    """The handling of the pictures of one cell.

    Args:
        folder: where they are kept.
        bounded: keep only the newest there; else all.
        graphics: the protocol of the terminal, `kitty`, `iterm` or `sixel`; None: it draws none.
    """

    def __init__(self, folder: Path, *, bounded: bool, graphics: str | None) -> None:
        self._folder = folder
        self._bounded = bounded
        self._graphics = graphics

    def show(self, data: Mapping[str, object]) -> bool:
        """Keep the picture or page of a display, and draw it; False if the display has none."""
        for kind, ending in TYPES.items():
            if kind == "text/html" and not str(data.get("text/plain", "")).startswith(_PLACEHOLDER):
                continue
            value = data.get(kind)
            if isinstance(value, str) and (content := _content(kind, value)) is not None:
                try:
                    path = self._keep(content, ending)
                except OSError as error:
                    printing.note(f"cannot keep a picture in {self._folder}: {error.strerror or error}")
                    return False
                size = png_size(content)
                if self._graphics and size is not None and len(content) <= DRAWN_MOST:
                    sys.stdout.write("".join(drawn(self._graphics, content)) + "\n")
                    sys.stdout.flush()
                if kind == "text/html":
                    _show_tables(value)
                about = f"{size[0]} x {size[1]} " if size else ""
                printing.note(f"{about}{ending[1:].upper()}: {path}")
                return True
        return False

    def _keep(self, content: bytes, ending: str) -> Path:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        taken = sorted(self._folder.glob("picture-*"), key=_number)
        for number in count(_number(taken[-1]) + 1 if taken else 1):
            path = self._folder / f"picture-{number}{ending}"
            with suppress(FileExistsError), path.open("xb") as file:  # another cell has shown one
                file.write(content)
                break
        if self._bounded:
            for old in taken[: max(len(taken) + 1 - KEPT_MOST, 0)]:
                old.unlink(missing_ok=True)
        return path


def terminal_graphics(environment: Mapping[str, str]) -> str | None:
    """Return the protocol by which the terminal draws pictures; None if it has no known protocol.

    tmux and screen pass pictures on only if their configuration says so.
    """
    if environment.get("TMUX") or environment.get("TERM", "").startswith(("screen", "tmux")):
        return None
    program = environment.get("TERM_PROGRAM", "").lower()
    if environment.get("KITTY_WINDOW_ID") or environment.get("TERM") == "xterm-kitty" or program == "ghostty":
        return "kitty"
    if program in ("iterm.app", "wezterm", "vscode", "mintty"):
        return "iterm"
    # Windows Terminal sets WT_SESSION, and draws sixels since 1.22.
    sixel = environment.get("TERM", "").startswith(("foot", "mlterm", "contour", "yaft"))
    return "sixel" if sixel or environment.get("WT_SESSION") else None


def png_size(content: bytes) -> tuple[int, int] | None:
    """Return width and height of a PNG, by its first chunk (PNG 3.0, 11.2.1); None if it cannot be drawn."""
    if content[:8] != _PNG or content[12:16] != b"IHDR" or len(content) < 24:
        return None
    width, height = int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")
    return (width, height) if 0 < width <= SIDE_MOST and 0 < height <= SIDE_MOST else None


def drawn(graphics: str, content: bytes) -> Iterator[str]:
    """Yield the escape sequences that draw a PNG.

    Sources: kitty's terminal graphics protocol; iTerm2's inline images protocol.
    """
    if graphics == "sixel":
        if importlib.util.find_spec("PIL") is not None:  # it comes with the packages of `mcp`
            yield sixels(content) or ""
        return
    text = base64.b64encode(content).decode("ascii")
    if graphics == "iterm":
        yield f"\x1b]1337;File=inline=1;size={len(content)}:{text}\x07"
        return
    for start in range(0, len(text), _CHUNK):
        more = int(start + _CHUNK < len(text))
        first = "a=T,f=100,q=2," if start == 0 else ""
        yield f"\x1b_G{first}m={more};{text[start : start + _CHUNK]}\x1b\\"


def chosen(save: str | None, home: Path) -> CellPictures:
    """Return the handling of pictures for this terminal: in the folder `save`, else in one of the home."""
    graphics = terminal_graphics(os.environ) if sys.stdout.isatty() else None
    if save is not None:
        return CellPictures(Path(save), bounded=False, graphics=graphics)
    return CellPictures(home / "pictures", bounded=True, graphics=graphics)


def _show_tables(page: str) -> None:
    for head, *rows in tables(page):
        printing.table(head, rows)


def _content(kind: str, value: str) -> bytes | None:
    """Return the bytes of a picture; None if they are not encoded as Jupyter's messages have them."""
    if kind in _TEXTS:
        return value.encode("utf-8", "replace")
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


def _number(path: Path) -> int:
    digits = path.stem.rpartition("-")[2]
    return int(digits) if digits.isdecimal() and len(digits) < 10 else 0
