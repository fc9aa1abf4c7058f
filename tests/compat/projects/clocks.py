"""Finds cases that measured their time by the time of day, which advances while a snapshot waits. Pure."""

from __future__ import annotations

import re


def measured(text: str, pattern: str, waited: float, ran: float) -> tuple[float, ...]:
    """Return the reported durations of cases in a copy, in seconds, if they include the time the snapshot
    waited.

    `text` is the output of the run, `pattern` finds milliseconds in it. `waited` are the seconds from the
    freeze to the restore, `ran` the seconds that the run took without them. A case that took long for any
    other reason took less than `waited`, or more than both.
    """
    if not pattern:
        return ()
    found = (float(number) / 1000 for number in re.findall(pattern, text))
    return tuple(sorted({round(each, 1) for each in found if waited <= each <= waited + ran}))
