"""Messages of a streaming RPC as bytes: Connect's enveloped JSON.  Pure.

Each is one byte of flags, its length (4 bytes, big endian), and JSON; the last of an answer has flag 2, and
the error in it, if there was one (connectrpc.com/docs/protocol).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

from holdfast.errors import InvalidArgument

MEDIA_TYPE = "application/connect+json"
LONGEST = 16 << 20
"""Bytes of a message that is accepted."""
_HEAD = struct.Struct(">BI")
_COMPRESSED, _LAST = 1, 2


def message(content: Mapping[str, Any]) -> bytes:
    """Return a message of an answer."""
    return _framed(0, content)


def last(code: str = "", told: str = "") -> bytes:
    """Return the last message of an answer; with a code it reports an error."""
    return _framed(_LAST, {"error": {"code": code, "message": told}} if code else {})


def _framed(flags: int, content: Mapping[str, Any]) -> bytes:
    body = json.dumps(content, separators=(",", ":")).encode()
    return _HEAD.pack(flags, len(body)) + body


class MessageReader:
    """Reads the messages of a request from its bytes as they come."""

    def __init__(self) -> None:
        self._left = bytearray()

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Return the messages that are whole now.

        Raises:
            InvalidArgument: it is not a message.
        """
        self._left += data
        found = []
        while len(self._left) >= _HEAD.size:
            flags, length = _HEAD.unpack_from(self._left)
            if flags & _COMPRESSED or length > LONGEST:
                raise InvalidArgument(
                    "cannot read the message: it is compressed, or longer than 16 MiB",
                    hint="send it uncompressed, and in parts",
                )
            if len(self._left) < _HEAD.size + length:
                break
            body = bytes(self._left[_HEAD.size : _HEAD.size + length])
            del self._left[: _HEAD.size + length]
            if not flags & _LAST:
                found.append(_object(body))
        return found

    def end(self) -> None:
        """Check that nothing is left.

        Raises:
            InvalidArgument: the last message is not whole.
        """
        if self._left:
            raise InvalidArgument("cannot read the message: the rest of it is missing")


def whole(data: bytes) -> dict[str, Any]:
    """Return the only message of a request.

    Raises:
        InvalidArgument: it has none, or several.
    """
    reader = MessageReader()
    found = reader.feed(data)
    reader.end()
    if len(found) != 1:
        raise InvalidArgument(f"cannot read the request: it has {len(found)} messages instead of one")
    return found[0]


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidArgument("cannot read the message: it is not a JSON object")
    return found
