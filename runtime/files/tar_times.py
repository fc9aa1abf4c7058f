"""Times of the members of tar streams, to the nanosecond: pax(1) has them as decimal text.  Pure."""

from __future__ import annotations

import tarfile
from decimal import Decimal, InvalidOperation

SECOND = 10**9
_RANGE = range(-(2**62), 2**63)
"""Nanoseconds since 1970 that a file can have."""


def stamp(member: tarfile.TarInfo, mtime_ns: int) -> None:
    """Give a member its time."""
    member.mtime = mtime_ns // SECOND
    if part := mtime_ns % SECOND:
        whole, part = (
            (mtime_ns // SECOND, part) if mtime_ns >= 0 else (-mtime_ns // SECOND, -mtime_ns % SECOND)
        )
        sign = "-" if mtime_ns < 0 else ""
        member.pax_headers = {"mtime": f"{sign}{whole}.{part:09d}"}


def mtime_ns(member: tarfile.TarInfo) -> int:
    """Return the time of a member, which may say anything: 0 if that is no time."""
    try:
        found = (
            Decimal(member.pax_headers["mtime"]) if "mtime" in member.pax_headers else Decimal(member.mtime)
        )
    except InvalidOperation:
        return 0
    if not found.is_finite() or abs(found) > 2**34:
        return 0
    nanoseconds = int(found * SECOND)
    return nanoseconds if nanoseconds in _RANGE else 0
