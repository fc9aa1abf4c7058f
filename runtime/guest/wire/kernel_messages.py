"""Messages of Jupyter as bytes: a channel and the parts of one message, in the binary form of its WebSockets.

The form is that of the sub-protocol `v1.kernel.websocket.jupyter.org`: 64 bit little-endian numbers, of which
the first says how many offsets follow; then the name of the channel, the header, the parent's header, the
metadata and the content as JSON, and buffers. Pure code, used by the supervisor and by the server.
"""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CHANNELS = ("shell", "control", "stdin", "iopub")
JSON_PARTS = 4
"""Header, parent's header, metadata, content."""
MOST_PARTS = 1024
LONGEST_HEADER = 64 << 10
_NUMBER = 8
_LONGEST_CHANNEL = 16


class MessageMalformed(ValueError):
    """The bytes are not a message of Jupyter."""


def pack(channel: str, parts: Sequence[bytes]) -> bytes:
    """Return a message as bytes."""
    name = channel.encode()
    offsets = [_NUMBER * (len(parts) + 3)]
    for part in (name, *parts):
        offsets.append(offsets[-1] + len(part))
    return b"".join((struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets), name, *parts))


def unpack(data: bytes) -> tuple[str, list[bytes]]:
    """Return the channel and the parts of a message.

    Raises:
        MessageMalformed: the bytes do not have that form.
    """
    if len(data) < _NUMBER:
        raise MessageMalformed("it is shorter than its first number")
    (count,) = struct.unpack_from("<Q", data)
    if not JSON_PARTS + 2 <= count <= MOST_PARTS + 2 or len(data) < _NUMBER * (count + 1):
        raise MessageMalformed(f"it cannot have {count} offsets")
    offsets = struct.unpack_from(f"<{count}Q", data, _NUMBER)
    rising = all(low <= high for low, high in itertools.pairwise(offsets))
    if offsets[0] != _NUMBER * (count + 1) or offsets[-1] != len(data) or not rising:
        raise MessageMalformed("its offsets do not match its parts")
    found = [data[low:high] for low, high in itertools.pairwise(offsets)]
    name = found[0][:_LONGEST_CHANNEL].decode("utf-8", "replace")
    if name not in CHANNELS:
        raise MessageMalformed(f"there is no channel {name!r}")
    return name, found[1:]


def header_of(parts: Sequence[bytes]) -> dict[str, Any]:
    """Return the header of a message, which has a text as `msg_id` and as `msg_type`.

    Raises:
        MessageMalformed: it has no such header.
    """
    if len(parts[0]) > LONGEST_HEADER:
        raise MessageMalformed(f"its header is longer than {LONGEST_HEADER} bytes")
    header = parsed(parts[0])
    if not all(isinstance(header.get(name), str) and header[name] for name in ("msg_id", "msg_type")):
        raise MessageMalformed("its header lacks a msg_id or msg_type")
    return header


def parsed(part: bytes) -> dict[str, Any]:
    """Return a part of a message that is JSON.

    Raises:
        MessageMalformed: it is not a JSON object.
    """
    try:
        value = json.loads(part)
    except (ValueError, RecursionError):
        raise MessageMalformed("a part of it is not JSON") from None
    if not isinstance(value, dict):
        raise MessageMalformed("a part of it is not a JSON object")
    return value


def written(value: object) -> bytes:
    """Return a part of a message."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
