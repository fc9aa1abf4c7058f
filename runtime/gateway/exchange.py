"""Puts the values of secrets into requests to their hosts, and placeholders into the responses. Pure.

Values are encoded as the place requires: percent-encoded in a URL or a form, escaped in JSON, and inside the
base64 of Basic authentication (RFC 7617). The response is searched for each form that was sent.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
from collections.abc import Iterable
from urllib.parse import quote

from holdfast.runtime.gateway.session_rules import Secret

PREFIX = "holdfast-secret-"
_PLACEHOLDER = re.compile(rf"{PREFIX}[0-9a-f]{{32}}")
_FORM, _JSON = "application/x-www-form-urlencoded", "json"


def new_placeholder() -> str:
    """Return a new, unique placeholder."""
    return PREFIX + secrets.token_hex(16)


def is_placeholder(text: str) -> bool:
    """Return whether it has the form of a placeholder."""
    return _PLACEHOLDER.fullmatch(text) is not None


class Exchange:
    """One request and its response."""

    def __init__(self, given: Iterable[Secret]) -> None:
        self._plain = [(one.placeholder.encode(), one.value.encode()) for one in given]
        self._back: dict[bytes, bytes] = {}
        for placeholder, value in self._plain:
            for form in (value, _quoted(value), _escaped(value)):
                self._back[form] = placeholder

    def target(self, data: bytes) -> bytes:
        """Return a path and query with the values put in."""
        return self._put(data, _quoted)

    def header(self, value: bytes) -> bytes:
        """Return a header's value with the values put in."""
        scheme, blank, encoded = value.partition(b" ")
        if blank and scheme.lower() == b"basic":
            return scheme + blank + self._basic(encoded.strip())
        return self._put(value)

    def body(self, data: bytes, kind: str) -> bytes:
        """Return a body with the values put in; `kind` is its Content-Type."""
        if kind.startswith(_FORM):
            return self._put(data, _quoted)
        return self._put(data, _escaped if _JSON in kind else bytes)

    def back(self, data: bytes, same_length: bool = False) -> bytes:
        """Return response data with placeholders, of the value's length if that must not change."""
        for form, placeholder in self._back.items():
            data = data.replace(
                form, placeholder[: len(form)].ljust(len(form), b"x") if same_length else placeholder
            )
        return data

    def stream(self, same_length: bool = False) -> BackStream:
        """Return the same for a body that comes in pieces."""
        return BackStream(self, same_length)

    def unfinished(self, data: bytes) -> int:
        """Return the length of the tail that could begin a value."""
        longest = 0
        for form in self._back:
            for length in range(min(len(form) - 1, len(data)), longest, -1):
                if data.endswith(form[:length]):
                    longest = length
                    break
        return longest

    def _put(self, data: bytes, form: object = bytes) -> bytes:
        for placeholder, value in self._plain:
            if placeholder in data:
                data = data.replace(placeholder, form(value))  # type: ignore[operator]
        return data

    def _basic(self, encoded: bytes) -> bytes:
        try:
            plain = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            return encoded
        real = self._put(plain)
        if real == plain:
            return encoded
        sent = base64.b64encode(real)
        self._back[sent] = encoded
        return sent


class BackStream:
    """Filter for each piece of a body, called with nothing at its end; returns the part that can be passed
    on."""

    def __init__(self, exchange: Exchange, same_length: bool) -> None:
        self._exchange, self._same_length, self._held = exchange, same_length, b""

    def __call__(self, piece: bytes) -> list[bytes]:
        """Return nothing or one piece (an empty one would be an end); a possible beginning of a value
        waits."""
        data = self._exchange.back(self._held + piece, self._same_length)
        kept = self._exchange.unfinished(data) if piece else 0
        self._held = data[len(data) - kept :]
        return [data[: len(data) - kept]] if len(data) > kept else []


def _quoted(value: bytes) -> bytes:
    return quote(value, safe="").encode()


def _escaped(value: bytes) -> bytes:
    return json.dumps(value.decode(), ensure_ascii=False)[1:-1].encode()
