"""Messages in the older form of Jupyter's WebSockets: JSON, as text or as bytes with buffers.  Pure.

Bytes begin with big-endian numbers of 32 bits: how many parts there are, and the offset of each. The first
part is the JSON, the others are buffers.
"""

from __future__ import annotations

import itertools
import json
import struct

from holdfast.runtime.guest.wire import kernel_messages
from holdfast.runtime.guest.wire.kernel_messages import MOST_PARTS, MessageMalformed

PARTS = ("header", "parent_header", "metadata", "content")


def shown(channel: str, parts: list[bytes]) -> str | bytes:
    """Return a message of a kernel for a client.

    Raises:
        MessageMalformed: it is not valid.
    """
    header = kernel_messages.header_of(parts)
    fields = {name: kernel_messages.parsed(part) for name, part in zip(PARTS, parts, strict=False)}
    buffers = parts[len(PARTS) :]
    message = {"msg_id": header["msg_id"], "msg_type": header["msg_type"], **fields}
    message |= {"channel": channel, "buffers": []}
    text = json.dumps(message, ensure_ascii=False)
    if not buffers:
        return text.encode("utf-8", "replace").decode()
    every = [text.encode("utf-8", "replace"), *buffers]
    offsets = [4 * (len(every) + 1)]
    for each in every[:-1]:
        offsets.append(offsets[-1] + len(each))
    return b"".join((struct.pack(f">{len(every) + 1}I", len(every), *offsets), *every))


def read(data: str | bytes) -> bytes:
    """Return a client's message in the binary form of kernel messages.

    Raises:
        MessageMalformed: it is no message.
    """
    text, buffers = (data, []) if isinstance(data, str) else _cut(data)
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise MessageMalformed("it is not JSON") from None
    if not isinstance(message, dict) or not all(isinstance(message.get(name, {}), dict) for name in PARTS):
        raise MessageMalformed("its header, metadata or content is not an object")
    # Not all clients say the channel: requests are of the shell then.
    channel = message.get("channel", "shell")
    if channel not in kernel_messages.CHANNELS:
        raise MessageMalformed("it names no channel")
    parts = [kernel_messages.written(message.get(name, {})) for name in PARTS]
    kernel_messages.header_of(parts)
    return kernel_messages.pack(channel, [*parts, *buffers])


def _cut(data: bytes) -> tuple[bytes, list[bytes]]:
    """Return the JSON and the buffers of a message with buffers."""
    if len(data) < 4:
        raise MessageMalformed("it is shorter than its first number")
    (count,) = struct.unpack_from(">I", data)
    if not 1 <= count <= MOST_PARTS - len(PARTS) or len(data) < 4 * (count + 1):
        raise MessageMalformed(f"it cannot have {count} parts")
    offsets = [*struct.unpack_from(f">{count}I", data, 4), len(data)]
    if offsets[0] != 4 * (count + 1) or offsets != sorted(offsets):
        raise MessageMalformed("its offsets are not those of its parts")
    found = [data[low:high] for low, high in itertools.pairwise(offsets)]
    return found[0], found[1:]
