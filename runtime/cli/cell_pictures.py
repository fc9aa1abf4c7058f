"""Pictures and pages that cells show: kept as files, named in one line, and drawn in terminals that can.

The bytes are a session's. Their header is read, and nothing is decoded here: a terminal that draws them does
so as a browser would; only sixels are made of the pixels. Knows no kernel and no session.
"""

from __future__ import annotations

import base64
import binascii
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

from holdfast.runtime.cli import printing

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
"""The text of a display that has no text of its own begins so."""


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
    """Return the protocol by which the terminal draws pictures; None if it is not known to have one.

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
    """Return width and height of a PNG, by its first chunk (PNG 3.0, 11.2.1); None: it is not one to draw."""
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
            from holdfast.runtime.cli import sixel_pictures

            yield sixel_pictures.sixels(content) or ""
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
    from holdfast.runtime.cli import html_tables  # few pages are shown

    for head, *rows in html_tables.tables(page):
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
