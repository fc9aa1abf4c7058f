"""The events of inotify(7) as the kernel writes them. Pure: bytes in, values out.

It knows neither paths nor users.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

MODIFY = 0x2
ATTRIB = 0x4
MOVED_FROM = 0x40
MOVED_TO = 0x80
CREATE = 0x100
DELETE = 0x200
DELETE_SELF = 0x400
MOVE_SELF = 0x800
OVERFLOW = 0x4000
IGNORED = 0x8000
ISDIR = 0x40000000
"""Bits of a mask; inotify(7), and linux/inotify.h for their numbers."""
_HEAD = struct.Struct("=iIII")


class RawEvent(NamedTuple):
    """One event: the number of its watch, its mask, and the name in the watched folder.

    Without a name it concerns the folder itself; names that are no UTF-8 have lone surrogates.
    """

    watch: int
    mask: int
    name: str


def parse(data: bytes) -> Iterator[RawEvent]:
    """Yield the events in what one read returned, which has only whole ones."""
    at = 0
    while at < len(data):
        watch, mask, _, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        name = data[at : at + length].split(b"\0", 1)[0]
        at += length
        yield RawEvent(watch, mask, os.fsdecode(name))
