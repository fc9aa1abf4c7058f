"""Durations and sizes as people write and read them.  Pure."""

from __future__ import annotations

import re

_DURATION = re.compile(r"(\d{1,10}(?:\.\d{1,6})?)\s*(s|m|min|h|d|w|)", re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([bkmgt]?)(?:i?b)?", re.ASCII)
_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_duration(text: str, *, unit_required: bool = False) -> float | None:
    """Return the seconds of a duration such as `90`, `90s`, `10m`, `1.5h`, `7d`; None for other text."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or (unit_required and not match[2]):
        return None
    return float(match[1]) * _SECONDS[match[2]]


def parse_size(text: str) -> int | None:
    """Return the bytes of a size such as `4096`, `500m`, `1.5GiB` (powers of 1024); None for other text."""
    match = _SIZE.fullmatch(text.strip().lower())
    return None if match is None else int(float(match[1]) * _BYTES[match[2]])


def size_text(count: int) -> str:
    """Format bytes for people: three digits and a unit (powers of 1000)."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{count} B" if unit == "B" else f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} TB"


def gib_text(count: int) -> str:
    """Format memory or disk space in GiB, with one decimal."""
    return f"{count / (1 << 30):.1f} GiB"
