"""One JSON object with a long text, written piece by piece: memory holds the text once, as its bytes.

A JSON string is escaped character by character (RFC 8259, section 7), so pieces of it are.
"""

from __future__ import annotations

import base64
import codecs
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.base import printable_json
from holdfast.runtime.cli import printing

PIECE = 3 << 16
"""Bytes; a multiple of three, so that pieces in base64 need no filling (RFC 4648)."""


def emit(value: Mapping[str, Any], name: str, data: bytes) -> None:
    """Write an object to standard output: the items of `value`, and `data` as text under `name`.

    If the bytes are not UTF-8, `<name>_base64` also has them in base64.
    """
    for piece in pieces(value, name, data):
        sys.stdout.write(printing.encodable_json(piece, sys.stdout))


def pieces(value: Mapping[str, Any], name: str, data: bytes) -> Iterator[str]:
    """Yield the text of such an object and a newline, in order."""
    yield printable_json.dumps(dict(value))[:-1]
    yield ", " * bool(value) + f'"{name}": "'
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for at in range(0, len(data), PIECE):
        yield _escaped(decoder.decode(data[at : at + PIECE]))
    yield _escaped(decoder.decode(b"", final=True)) + '"'
    if not _is_text(data):
        yield f', "{name}_base64": "'
        for at in range(0, len(data), PIECE):
            yield base64.b64encode(data[at : at + PIECE]).decode("ascii")
        yield '"'
    yield "}\n"


def _escaped(text: str) -> str:
    return printable_json.dumps(text)[1:-1]


def _is_text(data: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    try:
        for at in range(0, len(data), PIECE):
            decoder.decode(data[at : at + PIECE])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True
