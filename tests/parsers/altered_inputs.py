"""Inputs made of valid ones: bytes and JSON altered as an enemy and an accident would, from a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 255, 2**31, 2**53, 2**63, -(2**63), 10**40),
    *(0.5, 1e308, float("inf"), float("-inf"), float("nan")),
    *(
        "",
        "\0",
        "\ud800",
        "a\udfff",
        "\u202e",
        "\ufeff",
        "é",
        "x" * 5000,
        "../../x",
        "${A}",
        "%00",
        "\r\n",
        "1e999",
    ),
    *([], {}, [[]], {"": None}, [None] * 50, {"\ud800": "\ud800"}),
)
"""Values of JSON that programs forget."""
_BYTES = (
    b"\0",
    b"\xff",
    b"\x80",
    b"\r\n",
    b"\n",
    b'"',
    b"\\",
    b"{",
    b"[",
    b"--",
    b":",
    b"%",
    b"\xed\xa0\x80",
)


def altered(dice: random.Random, data: bytes, tokens: Sequence[bytes]) -> bytes:
    """Return an input with a few changes; `tokens` are words of its format."""
    made = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 3, 8))):
        at = dice.randrange(len(made) + 1)
        end = min(len(made), at + dice.choice((1, 1, 2, 4, 16, 100)))
        match dice.randrange(9):
            case 0:
                made[at:end] = b""
            case 1:
                made[at:at] = dice.choice((*_BYTES, *tokens))
            case 2:
                made[at:end] = dice.choice((*_BYTES, *tokens))
            case 3:
                made[at:at] = made[at:end] * dice.choice((1, 2, 30))
            case 4:
                del made[at:]
            case 5 if at < len(made):
                made[at] ^= 1 << dice.randrange(8)
            case 6:
                made[at:end] = bytes(dice.randrange(256) for _ in range(end - at))
            case 7:
                made[at:end] = (dice.choice((0, 1, 2**31 - 1, 2**31, 2**32 - 1)) & 0xFFFFFFFF).to_bytes(
                    4, "big"
                )
            case _:
                start = dice.randrange(len(made) + 1)
                made[at:at] = made[start : start + 40]
    return bytes(made)


def altered_json(dice: random.Random, value: Any) -> Any:
    """Return a value of JSON with one change somewhere in it."""
    if isinstance(value, dict) and value and dice.random() < 0.8:
        key = dice.choice(list(value))
        if dice.random() < 0.15:
            return {
                dice.choice((key, "\ud800", "", "__proto__", "x" * 300)) if name == key else name: each
                for name, each in value.items()
            }
        if dice.random() < 0.15:
            return {name: each for name, each in value.items() if name != key}
        return {name: altered_json(dice, each) if name == key else each for name, each in value.items()}
    if isinstance(value, list) and value and dice.random() < 0.8:
        at = dice.randrange(len(value))
        return [*value[:at], altered_json(dice, value[at]), *value[at + 1 :]]
    return dice.choice((*ODD, [value], {"a": value}, [value] * 30))


def texts_of(dice: random.Random, data: bytes, tokens: Sequence[bytes]) -> bytes:
    """Return an altered input; one in JSON is altered as such every other time."""
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    if value is None or dice.random() < 0.5:
        return altered(dice, data, tokens)
    for _ in range(dice.choice((1, 1, 2, 4))):
        value = altered_json(dice, value)
    return json.dumps(value).encode()


def pieces(dice: random.Random, data: bytes) -> Iterator[bytes]:
    """Yield an input as a network delivers it: in pieces of any size."""
    at = 0
    while at < len(data):
        size = dice.choice((1, 2, 7, 64, 1000, 1 << 16))
        yield data[at : at + size]
        at += size


def pumped(token: bytes, size: int, begin: bytes = b"", end: bytes = b"") -> bytes:
    """Return an input of that size that is one word again and again."""
    return begin + token * (max(0, size - len(begin) - len(end)) // len(token)) + end
