"""The names of images that a snapshot shares with earlier ones; see `criu/earlier_images.py`. Pure."""

from __future__ import annotations

import re

MOST = 8
"""Captures that a snapshot reaches back; the next is whole again."""
RECENT = 600
"""Seconds: writes to a session's memory are noted if it is captured more often than that."""
PREFIX = "earlier-"
PATTERN = rf"{PREFIX}([1-{MOST}])-((?:pagemap|pages)-[0-9]{{1,20}}\.img)"
_NAME = re.compile(PATTERN)


def parted(name: str) -> tuple[int, str]:
    """Return how many captures back an image is from, and its name then; 0: it belongs to the snapshot
    itself."""
    found = _NAME.fullmatch(name)
    return (int(found[1]), found[2]) if found is not None else (0, name)


def is_earlier(name: str) -> bool:
    """Return whether an image is of an earlier capture."""
    return parted(name)[0] > 0


def named(captures: int, name: str) -> str:
    """Return the name of an image from that many captures back."""
    return f"{PREFIX}{captures}-{name}" if captures else name


def name_before(name: str) -> str:
    """Return the name that an image of an earlier capture has in the snapshot before; empty for others."""
    captures, own = parted(name)
    return named(captures - 1, own) if captures else ""
