"""The forms in which a known value may be written: as is, by lines, as in URLs, JSON and base64. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from urllib.parse import quote

SHORTEST = 4
"""Minimal length of a value; hiding shorter ones would garble ordinary text."""
SHORTEST_LINE = 8
_WORDS = frozenset(
    {"true", "false", "none", "null", "always", "never", "auto", "default", "enabled", "disabled"}
)


def hidden(value: str) -> bool:
    """Return whether a value can be hidden without garbling text that is not secret."""
    return len(value) >= SHORTEST and value.lower() not in _WORDS


def of(value: str) -> Iterator[str]:
    """Return all forms of a value; some may be equal."""
    yield value
    stripped = value.strip()
    if len(stripped) >= SHORTEST:
        yield stripped
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= SHORTEST_LINE)
    yield quote(value, safe="")
    yield json.dumps(value)[1:-1]
    for text in {value, stripped}:
        yield base64.b64encode(text.encode("utf-8", "surrogateescape")).decode("ascii")
