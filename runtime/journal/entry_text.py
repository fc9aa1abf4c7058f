"""Journal entries as lines for people.  Pure.

Their contents come from sessions and may be anything; the caller makes them safe to show.
"""

from __future__ import annotations

from holdfast.base.text import plain
from holdfast.runtime.journal.event_text import SENTENCES, Fields, format_event
from holdfast.runtime.store.entry import Entry

MAX_LINE = 160
_OF_THE_ONE_BEFORE = ("command_ended", "cell_ended", "changed")
"""They are indented."""


def line(entry: Entry, *, asked: str) -> str:
    """Format one entry. Sessions other than the one asked for are named."""
    at = entry.time.astimezone()
    number = f"{entry.seq}{'+' if entry.host else ''}"
    where = "" if entry.session == asked else f" [{entry.session}]"
    mark = " " if entry.current else "~"
    kind = "" if entry.kind in SENTENCES else f"{entry.kind.replace('_', ' ')}: "
    indent = "  " if entry.kind in _OF_THE_ONE_BEFORE else ""
    text = indent + plain(kind + format_event(entry.kind, entry.details), MAX_LINE)
    reason = Fields(entry.details)("reason", "")
    why = f"  ({plain(reason, 80)})" if reason else ""
    return f"{mark}{number:>6}  {at:%m-%d %H:%M:%S}  {entry.actor or '-':<14}{where} {text}{why}".rstrip()
