"""Finds unix connections of which CRIU's images have one end only, which no restore can make.

CRIU notes the listener as the other end of a connection that is not accepted yet, and writes it whether or
not the listener itself is in the images.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def without_peer(entries: Iterable[Any]) -> int:
    """Return the inode of a socket whose other end is not among a capture's file entries; 0 if all are."""
    peers = {entry.usk.ino: entry.usk.peer for entry in entries if entry.HasField("usk")}
    return next((number for number, peer in peers.items() if peer and peer not in peers), 0)
