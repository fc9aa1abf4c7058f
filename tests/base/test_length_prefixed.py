"""Pieces of a stream, however it is cut: outputs of a program in a container here."""

from __future__ import annotations

import struct

import pytest

from holdfast.base.length_prefixed import LengthPrefixed

ERRORS = 2


def piece(number: int, data: bytes) -> bytes:
    return struct.pack(">BxxxI", number, len(data)) + data


@pytest.mark.parametrize("size", [1, 3, 8, 100])
def test_pieces_are_found_wherever_the_connection_cuts_them(size: int) -> None:
    data = piece(1, b"out") + piece(ERRORS, b"") + piece(ERRORS, b"wrong" * 10)
    outputs = LengthPrefixed(struct.Struct(">BxxxI"))
    found = [each for at in range(0, len(data), size) for each in outputs.feed(data[at : at + size])]
    assert found == [(1, b"out"), (ERRORS, b""), (ERRORS, b"wrong" * 10)]
