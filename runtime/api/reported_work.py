"""Reads the work on tasks since a time from the journals of a home, also of removed sessions.

`task/work_report` decides on the meaning of the entries.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from holdfast.errors import InvalidArgument
from holdfast.runtime.journal.journal_query import as_entry
from holdfast.runtime.store.journal_entries import EntryFilter
from holdfast.runtime.store.timelines import line_of
from holdfast.runtime.task import kept_task
from holdfast.runtime.task.work_report import WorkReport, session_work

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.journal_entries import EntryRow
    from holdfast.runtime.store.rows import SessionRow

AT_ONCE = 500
"""Ids in one query: databases limit how many there can be."""
KIND = "task_changed"


def reported_work(context: Context, since: float) -> WorkReport:
    """Return the work since a time, in Unix seconds.

    Work that a rewind has undone is left out: it belongs to a different timeline.
    """
    store = context.store
    sessions = store.sessions(removed=True)
    lives = [life for row in sessions for life in _lives(row)]
    found: dict[str, list[EntryRow]] = defaultdict(list)
    wanted = EntryFilter(kinds=[KIND], since=since)
    for start in range(0, len(lives), AT_ONCE):
        for entry in list(store.entries.stream(lives[start : start + AT_ONCE], wanted)):
            found[entry.session_id].append(entry)
    branches = store.entries.branches() if found else {}
    works = []
    for row in sessions:
        own = _lives(row)
        parts = [
            part for part in line_of(row.id, branches) if part.session_id in own and part.session_id in found
        ]
        entries = [
            as_entry(each, row.name)
            for part in parts
            for each in found[part.session_id]
            if part.covers(each.seq, each.at, host=each.host)
        ]
        work = session_work(entries, row.name, row.id, row.state, _goal(row)) if entries else None
        if work is not None:
            works.append(work)
    return WorkReport(since, tuple(works))


def _lives(row: SessionRow) -> list[str]:
    return [*(str(life["id"]) for life in row.details.lives), row.id]


def _goal(row: SessionRow) -> str:
    try:
        record = kept_task.of(row)
    except InvalidArgument:
        return ""
    return "" if record is None else record.goal
