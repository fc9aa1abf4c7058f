"""Lets work that reads a stream read the body of an answer. By hand, as ../aio/async_copying.py is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BufferedReader
from typing import IO

from holdfast.runtime.client.part_stream import PartStream
from holdfast.runtime.files.copied import Copied


def unpacked(body: Iterator[bytes], unpack: Callable[[IO[bytes]], Copied]) -> Copied:
    """Return what the work makes of the body."""
    return unpack(BufferedReader(PartStream(lambda: next(body, None)), 1 << 18))
