"""Output for people and programs: tables, and long texts as JSON in pieces that join to the whole."""

from __future__ import annotations

import base64
import json
import random

import pytest

from holdfast.runtime.cli import printing
from holdfast.runtime.cli.printing import PIECE, pieces


def test_no_invisible_character_is_left() -> None:
    """Characters that would turn or hide text on a terminal are escaped, in the long text and beside it."""
    hidden = "\u202e\x9b31m\u200b"
    written = "".join(pieces({"name": hidden}, "output", hidden.encode()))

    assert written.isascii()
    assert json.loads(written) == {"name": hidden, "output": hidden}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'"\\\n\x00\x1b' * 1000,
        "ä€😀".encode() * (PIECE // 3),  # characters across the ends of pieces
        random.Random(1).randbytes(2 * PIECE + 1),
        b"x" * PIECE + "€".encode()[:2],
    ],
    ids=["empty", "escapes", "wide", "binary", "cut"],
)
def test_pieces_are_one_object(data: bytes) -> None:
    """Text as text; bytes that are not text also as they are."""
    written = "".join(pieces({"id": "a", "n": [1]}, "output", data))
    found = json.loads(written)

    assert written.endswith("}\n")
    assert (found["id"], found["n"]) == ("a", [1])
    assert found["output"] == data.decode("utf-8", "replace")
    whole = base64.b64decode(found["output_base64"]) if "output_base64" in found else found["output"].encode()
    assert whole == data
    assert max(map(len, pieces({}, "output", data))) < 8 * PIECE


def test_a_table_is_aligned_whatever_is_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("日本", "wide"), ("e\u0301", "combined"), ("\x1b[31mred", "x"), ("", "")]
    printing.table(("NAME", "WHY"), rows)

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "NAME     WHY"
    assert lines[1] == "日本     wide"
    assert lines[2] == "e\u0301        combined"
    assert "\x1b" not in lines[3]
