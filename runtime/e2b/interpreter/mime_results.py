"""A MIME bundle of a kernel as the fields of a result of this wire.  Pure.

The session decides what is in it: whatever it is, the fields are of the types that clients expect, and what
is not of those is among the `extra` ones, by its MIME type.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from typing import Any

NAMES = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "text/latex": "latex",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "application/javascript": "javascript",
}
"""The fields that are text."""
OBJECTS = {"e2b/data": "data", "e2b/chart": "chart"}
"""The fields that are objects: columns of a data frame, and what a chart shows."""
JSON = "application/json"
_BASE64 = frozenset({"image/png", "image/jpeg", "application/pdf"})
_QUOTES = "'\""
TOO_DEEP = "[a value was left out: it is nested too deeply]"


def result_fields(bundle: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a result, among them only what the bundle has."""
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for mime, value in bundle.items():
        name, text = NAMES.get(mime), _text(value)
        if mime == JSON:
            fields["json"] = finite(value)
        elif mime in OBJECTS and isinstance(value, dict):
            fields[OBJECTS[mime]] = finite(value)
        elif name is None or text is None or (mime in _BASE64 and not _is_base64(text)):
            extra[mime] = finite(value)
        else:
            fields[name] = _unquoted(text) if name == "text" else text
    return fields | ({"extra": extra} if extra else {})


def finite(value: Any) -> Any:
    """Return a value that JSON has: its numbers are finite, others are null."""
    try:
        return _finite(value)
    except RecursionError:
        return TOO_DEEP


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return value


def _text(value: Any) -> str | None:
    """Return a text of a bundle, which may also be a list of its lines; None if it is something else."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return None


def _is_base64(text: str) -> bool:
    """Return whether it is base64, with or without line ends."""
    try:
        base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _unquoted(text: str) -> str:
    """Return the text of a value without the quotes of a string, as clients know it."""
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in _QUOTES
    return text[1:-1] if quoted else text
