"""Tells cases that measured their time by the time of day, which goes on while a snapshot waits. Pure."""

from __future__ import annotations

import re


def measured(text: str, pattern: str, waited: float, ran: float) -> tuple[float, ...]:
    """What cases in a copy say they took, in seconds, if the time that the snapshot waited is part of it.

    `text` is what the run printed, `pattern` finds milliseconds in it. `waited` are the seconds from the
    freeze to the restore, `ran` those that the run took without them. A case that took long for any other
    reason took less than `waited`, or more than both.
    """
    if not pattern:
        return ()
    found = (float(number) / 1000 for number in re.findall(pattern, text))
    return tuple(sorted({round(each, 1) for each in found if waited <= each <= waited + ran}))
