"""Pictures as sixels, for terminals that have no better protocol.

Source: DEC's VT330/VT340 Programmer Reference Manual, volume 2, chapter 14. The picture is a session's;
`plots` reads it within its bounds. Needs Pillow.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from itertools import groupby

from PIL import Image

from holdfast.runtime.mcp import plots

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
    small = plots.small_png({"image/png": base64.b64encode(png).decode("ascii")})
    return None if small is None else "".join(_drawn(_few_colors(small)))


def _few_colors(png: bytes) -> Image.Image:
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
