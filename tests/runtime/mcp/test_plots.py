"""Pictures become small PNGs, and lookalikes do no harm."""

from __future__ import annotations

import base64
import io
import os
import struct
import zlib

import pytest
from PIL import Image

from holdfast.runtime.mcp.plots import MOST_BYTES, WIDEST, small_png


def encoded(picture: Image.Image, form: str = "PNG") -> str:
    file = io.BytesIO()
    picture.save(file, form)
    return base64.b64encode(file.getvalue()).decode()


def noise(width: int, height: int, mode: str = "RGB") -> Image.Image:
    return Image.frombytes(mode, (width, height), os.urandom(width * height * len(mode)))


@pytest.mark.parametrize(
    ("mode", "form"), [("RGB", "PNG"), ("RGBA", "PNG"), ("L", "PNG"), ("RGB", "JPEG"), ("L", "JPEG")]
)
def test_a_picture_fits_whatever_is_in_it(mode: str, form: str) -> None:
    found = small_png({f"image/{form.lower()}": encoded(noise(1500, 900, mode), form)})
    assert found is not None
    assert len(found) <= MOST_BYTES
    with Image.open(io.BytesIO(found)) as opened:
        assert opened.width <= WIDEST
        assert abs(opened.width / opened.height - 1500 / 900) < 0.05


def test_a_small_one_keeps_its_size() -> None:
    found = small_png({"image/png": encoded(noise(20, 10))})
    assert found is not None
    with Image.open(io.BytesIO(found)) as opened:
        assert opened.size == (20, 10)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"text/plain": "x"},
        {"image/png": 5},
        {"image/png": "no base64!"},
        {"image/png": base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()},
        {"image/png": encoded(noise(30, 30))[:-40]},
        {"image/png": encoded(noise(30, 30), "GIF")},
        {"image/svg+xml": "<svg/>"},
    ],
)
def test_other_data_is_not_a_picture(data: dict[str, object]) -> None:
    assert small_png(data) is None


def test_a_picture_that_would_fill_the_memory_is_not_decoded() -> None:
    """A PNG of a few kilobytes that says that it is 30 000 pixels wide and high."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1 << 20)))
    assert small_png({"image/png": base64.b64encode(bomb).decode()}) is None
