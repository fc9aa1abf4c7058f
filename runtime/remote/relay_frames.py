"""The frames between a command line and the doorkeeper that runs it next to a remote engine. Pure.

A frame is a byte for its kind, four for the length of its body (big-endian), and the body. Both ends are of
the same version: the image that holds the doorkeeper is named by its content.
"""

from __future__ import annotations

import struct

from holdfast.base.length_prefixed import LengthPrefixed

BEGIN = b"b"
"""To the doorkeeper, first: the command to run, as JSON."""
INPUT = b"i"
"""To the doorkeeper: a piece of standard input; an empty one is its end."""
SIGNAL = b"s"
"""To the doorkeeper: the name of a signal, such as SIGINT."""
SIZE = b"w"
"""To the doorkeeper: rows and columns of the terminal, as JSON."""
TAKEN = b"t"
"""From the doorkeeper: how many bytes of input the command has taken, as a decimal number."""
OUTPUT = b"o"
ERRORS = b"e"
ALIVE = b"a"
"""From the doorkeeper, every ALIVE_SECONDS: engines can keep the connection to a program they have killed."""
EXIT = b"x"
"""From the doorkeeper, last: the exit code, as a decimal number."""

CREDIT = 256 << 10
"""Bytes of input that can be on their way: a command that reads none keeps no signal waiting behind it."""
ALIVE_SECONDS = 10.0
SILENCE_SECONDS = 60.0
"""After this long without a frame, the connection is lost."""
PIECE = 64 << 10
LARGEST = 8 << 20
_HEAD = struct.Struct(">cI")


def frame(kind: bytes, body: bytes = b"") -> bytes:
    """Return a frame as it is sent."""
    return _HEAD.pack(kind, len(body)) + body


def frames() -> LengthPrefixed:
    """Return a decoder that takes the frames out of pieces of a stream."""
    return LengthPrefixed(_HEAD, LARGEST)
