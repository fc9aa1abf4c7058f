"""The bytes that make a real terminal show and do the same as an emulated one. Pure.

The picture comes first, then the state that decides how the next bytes are taken: scroll region, modes,
colors, the place of the cursor. None of it makes a terminal answer, or sets its title, which is the person's.
"""

from __future__ import annotations

from pyte.screens import Char, Cursor, wcwidth

from holdfast.base.text import fit
from holdfast.runtime.terminal.emulator import INSERT, MODES, Emulator
from holdfast.runtime.terminal.safe_output import RESET

_DEFAULT_ON = frozenset({7, 25})
_COLORS = ("black", "red", "green", "brown", "blue", "magenta", "cyan", "white")
_STYLES = (
    ("bold", 1),
    ("italics", 3),
    ("underscore", 4),
    ("blink", 5),
    ("reverse", 7),
    ("strikethrough", 9),
)
# pyte misspells one of its names.
_BRIGHT = {**{f"bright{name}": n for n, name in enumerate(_COLORS)}, "bfightmagenta": 5}


def redraw(
    terminal: Emulator, *, rows: int | None = None, cols: int | None = None, below: bytes | None = None
) -> bytes:
    """Return the bytes. A terminal with fewer rows or columns gets the part with the cursor's row.

    `below` paints rows below the picture, which then do not scroll with it.
    """
    rows, cols = min(rows or terminal.lines, terminal.lines), min(cols or terminal.columns, terminal.columns)
    out = [RESET, b"\x1b[H\x1b[2J"]
    if terminal.first is not None:
        second, cursor = terminal.buffer, terminal.cursor
        terminal.buffer, terminal.cursor = terminal.first
        try:
            out += [_picture(terminal, rows, cols), _cursor(terminal, terminal.cursor, rows, cols, 0)]
        finally:
            terminal.buffer, terminal.cursor = second, cursor
        # 1049 saves the cursor and its colors as they are here, for the return to the first screen.
        out.append(b"\x1b[?1049h\x1b[0m\x1b[H\x1b[2J")
    out.append(_picture(terminal, rows, cols))
    out.append(below or b"")
    top = 0
    if terminal.margins and rows == terminal.lines:
        out.append(b"\x1b[%d;%dr" % (terminal.margins.top + 1, terminal.margins.bottom + 1))
    elif below is not None:
        out.append(b"\x1b[1;%dr" % rows)
    if terminal.savepoints and (rows, cols) == (terminal.lines, terminal.columns):
        out += [_cursor(terminal, terminal.savepoints[-1].cursor, rows, cols, 0), b"\x1b7"]
    if terminal.private(6) and terminal.margins:
        top = terminal.margins.top
    for mode in MODES:
        on = terminal.private(mode) if mode != 25 else not terminal.cursor.hidden
        if on != (mode in _DEFAULT_ON):
            out.append(b"\x1b[?%d%c" % (mode, b"h" if on else b"l"))
    out.append(_cursor(terminal, terminal.cursor, rows, cols, top))
    out.append(b"\x1b=" if terminal.keypad else b"")
    out.append(b"\x1b[4h" if INSERT in terminal.mode else b"")
    return b"".join(out)


def _picture(terminal: Emulator, rows: int, cols: int) -> bytes:
    out = bytearray(b"\x1b[0m")
    pen = _sgr(terminal.default_char)
    blank = terminal.default_char
    skipped = _skipped(terminal.cursor, rows)
    for row in range(rows):
        cells = terminal.cells(row + skipped)[:cols]
        while cells and cells[-1] == blank:
            cells.pop()
        if not cells:
            continue
        out += b"\x1b[%d;1H" % (row + 1)
        for column, cell in enumerate(cells):
            if not cell.data:
                continue
            if column + 1 == cols and wcwidth(cell.data[0]) == 2:
                cell = cell._replace(data=" ")
            style = _sgr(cell)
            if style != pen:
                out += style
                pen = style
            out += _text(cell.data)
    return bytes(out + b"\x1b[0m")


def _cursor(terminal: Emulator, cursor: Cursor, rows: int, cols: int, top: int) -> bytes:
    """Return the bytes that set the position and style of the next character."""
    row, column = cursor.y - _skipped(cursor, rows), min(cursor.x, cols - 1)
    out = b"\x1b[%d;%dH" % (row - top + 1, column + 1)
    if cursor.x >= terminal.columns and cols == terminal.columns:
        # After the last column: the next character wraps. Only a character written there leads to that state.
        cells = terminal.cells(cursor.y)
        at = column if cells[column].data else column - 1
        out = b"\x1b[%d;%dH" % (row - top + 1, at + 1) + _sgr(cells[at]) + _text(cells[at].data)
    return out + _sgr(cursor.attrs)


def _skipped(cursor: Cursor, rows: int) -> int:
    """Return the number of rows left out at the top, so that the cursor's row is visible."""
    return max(0, cursor.y - rows + 1)


def _text(data: str) -> bytes:
    return "".join(c if fit(c) else " " for c in data).encode()


def _sgr(char: Char) -> bytes:
    numbers = ["0", *(str(number) for name, number in _STYLES if getattr(char, name))]
    numbers += _color(char.fg, 30) + _color(char.bg, 40)
    return f"\x1b[{';'.join(numbers)}m".encode()


def _color(name: str, base: int) -> list[str]:
    if name == "default":
        return []
    if name in _COLORS:
        return [str(base + _COLORS.index(name))]
    if name in _BRIGHT:
        return [str(base + 60 + _BRIGHT[name])]
    try:
        red, green, blue = bytes.fromhex(name)
    except ValueError:
        return []
    return [str(base + 8), "2", str(red), str(green), str(blue)]
