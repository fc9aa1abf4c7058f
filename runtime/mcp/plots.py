"""Pictures of cells, as one small PNG. A session can send anything as a picture."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from typing import Any

from PIL import Image

MOST_BYTES = 100_000
"""Of the PNG that an agent receives."""
WIDEST = 1024
"""Pixels, of the longer side."""
MOST_PIXELS = 40_000_000
"""Of a picture that is decoded; 160 MB of memory."""
_LARGEST = 32 << 20
_SHRINK = 0.7
_UNREADABLE = (
    ValueError,  # binascii.Error is one
    OSError,  # UnidentifiedImageError is one
    SyntaxError,
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,
)
"""How Pillow reports pictures that are damaged or too large."""
_FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG"}


def small_png(data: Mapping[str, Any]) -> bytes | None:
    """Return the picture of a MIME bundle as a PNG of at most 100 kB; None without a readable one."""
    for mime, form in _FORMATS.items():
        encoded = data.get(mime)
        if isinstance(encoded, str) and len(encoded) <= _LARGEST:
            try:
                return _shrunk(base64.b64decode(encoded), form)
            except _UNREADABLE:
                continue
    return None


def _shrunk(content: bytes, form: str) -> bytes | None:
    with Image.open(io.BytesIO(content), formats=[form]) as opened:  # reads no pixels yet
        if opened.width * opened.height > MOST_PIXELS:
            return None
        picture: Image.Image = opened.convert("RGBA" if "A" in opened.getbands() else "RGB")
    scale = min(1.0, WIDEST / max(picture.size))
    while scale * max(picture.size) >= 1:
        width, height = (max(1, round(side * scale)) for side in picture.size)
        smaller = picture if scale == 1 else picture.resize((width, height))
        for each in (smaller, _few_colors(smaller)):
            if len(png := _png(each)) <= MOST_BYTES:
                return png
        scale *= _SHRINK
    return None


def _few_colors(picture: Image.Image) -> Image.Image:
    return picture.convert("RGB").quantize(64)


def _png(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return file.getvalue()
