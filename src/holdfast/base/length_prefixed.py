"""Pieces of a stream in which each has a head with its kind and its length. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any


class LengthPrefixed:
    """The pieces of a stream, however the stream is cut.

    Args:
        head: unpacks to the kind of a piece and the length of its body.
        largest: the most bytes that a body may have; None for as many as a head can say.
    """

    def __init__(self, head: Struct, largest: int | None = None) -> None:
        self._head = head
        self._largest = largest
        self._left = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Any, bytes]]:
        """Yield the kind and the body of each piece that is now complete.

        Raises:
            ValueError: a body is too long: the other end speaks another protocol.
        """
        self._left += data
        start = self._head.size
        while len(self._left) >= start:
            kind, length = self._head.unpack_from(self._left)
            if self._largest is not None and length > self._largest:
                raise ValueError("a frame that is too long")
            if len(self._left) < start + length:
                return
            body = bytes(self._left[start : start + length])
            del self._left[: start + length]
            yield kind, body
