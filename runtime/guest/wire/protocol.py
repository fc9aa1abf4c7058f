"""The frames between the host and the supervisor, and the versions in which both speak.

A frame is two big-endian 32 bit lengths, a JSON object in UTF-8 and a payload of raw bytes:

    | json_len : u32 | payload_len : u32 | JSON object | payload |

Pure code: bytes in, frames out. It does not know sockets, nor the meaning of the operations. Both sides use
it, and neither trusts the other: every violation is a `FrameError`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSION = 1
"""What this version of Holdfast speaks. It rises with each change of an operation that a supervisor of before
would misunderstand; not with what that may ignore, or does not know by name."""
OLDEST = 1
"""The version of the oldest requests that a supervisor carries out, and of the oldest supervisors in use."""
SINCE: dict[str, int] = {}
"""Operations by the version in which they became what they are, if that is not the oldest."""
MAX_HEAD = 1 << 20
MAX_PAYLOAD = 8 << 20
_LENGTHS = struct.Struct(">II")


class FrameError(ValueError):
    """The peer sent something that violates the protocol."""


class Frame:
    """One message: a JSON object and bytes. No dataclass: every command would wait for those to load."""

    __slots__ = ("head", "payload")

    def __init__(self, head: dict[str, Any], payload: bytes = b"") -> None:
        self.head = head
        self.payload = payload

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frame):
            return NotImplemented
        return (self.head, self.payload) == (other.head, other.payload)

    def __repr__(self) -> str:
        return f"Frame({self.head!r}, {self.payload!r})"

    @property
    def event(self) -> str:
        """The event of a server's frame, or an empty string."""
        return _text(self.head.get("event"))

    @property
    def op(self) -> str:
        """The operation of a client's frame, or an empty string."""
        return _text(self.head.get("op"))

    @property
    def end(self) -> bool:
        """True if it is the last frame of its connection."""
        return self.head.get("end") is True


def encode(frame: Frame) -> bytes:
    """Return the frame as bytes.

    Raises:
        ProtocolError: it exceeds a limit.
    """
    head = json.dumps(frame.head, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    _check_lengths(len(head), len(frame.payload))
    return b"".join((_LENGTHS.pack(len(head), len(frame.payload)), head, frame.payload))


def frame_at(position: int, read: Callable[[int, int], bytes]) -> tuple[Frame, int] | None:
    """Return the recorded frame at a position, and its length; None if there is none.

    `read` takes an offset and a length.
    """
    lengths = read(position, _LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    head, payload = _LENGTHS.unpack(lengths)
    if head > MAX_HEAD or payload > MAX_PAYLOAD:
        return None
    found = FrameReader().feed(lengths + read(position + _LENGTHS.size, head + payload))
    return (found[0], _LENGTHS.size + head + payload) if found else None


def request(op: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the head of a client's frame.

    It carries the version since which the operation is unchanged: a supervisor that knows a later one as
    well carries it out, and one that knows only earlier ones refuses it.
    """
    return {"v": SINCE.get(op, OLDEST), "op": op, **fields}


def is_understood(version: object) -> bool:
    """Check whether this version of Holdfast carries out requests of a version."""
    return type(version) is int and OLDEST <= version <= VERSION


class FrameReader:
    """Cuts a stream of bytes into frames. A ProtocolError makes the stream unusable."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._wanted = _LENGTHS.size

    def feed(self, data: bytes) -> list[Frame]:
        """Add bytes and return the frames they complete, in order."""
        self._buffer += data
        if len(self._buffer) < self._wanted:
            return []
        return list(self._frames())

    @property
    def pending(self) -> int:
        """The number of bytes that are not part of a returned frame."""
        return len(self._buffer)

    def _frames(self) -> Iterator[Frame]:
        buffer, start = self._buffer, 0
        while True:
            self._wanted = _LENGTHS.size
            if len(buffer) - start < self._wanted:
                break
            head_length, payload_length = _LENGTHS.unpack_from(buffer, start)
            _check_lengths(head_length, payload_length)
            self._wanted += head_length + payload_length
            if len(buffer) - start < self._wanted:
                break
            body = start + _LENGTHS.size
            end = body + head_length + payload_length
            yield Frame(_object(buffer[body : body + head_length]), bytes(buffer[body + head_length : end]))
            start = end
        del buffer[:start]


def _object(data: bytes | bytearray) -> dict[str, Any]:
    try:
        head = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"cannot read frame: its head is not JSON ({error})") from None
    if not isinstance(head, dict):
        raise FrameError(f"cannot read frame: its head is not an object but {type(head).__name__}")
    return head


def _check_lengths(head: int, payload: int) -> None:
    if head > MAX_HEAD:
        raise FrameError(f"cannot pass frame: its head has {head} bytes, the limit is {MAX_HEAD}")
    if payload > MAX_PAYLOAD:
        raise FrameError(f"cannot pass frame: its payload has {payload} bytes, the limit is {MAX_PAYLOAD}")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
