"""Files that were written into a session from this host, and by whom.  Pure.

No command of the session did it, so no entry of its own journal has it: the host's entries do. A file is
attributed to a copy if it is at or below the place that was written, and changed while it was.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.base.text import plain
from holdfast.runtime.history.drift.authors import SLACK

if TYPE_CHECKING:
    from holdfast.runtime.history.drift.changed_paths import FileChange
    from holdfast.runtime.store.entry import Entry

KIND = "files"
"""The kind of the host's entries about files."""
_WRITING = ("copied in", "wrote", "moved")
_UNKNOWN_BEGIN = 2.0
"""Seconds before its entry in which a copy may have begun, if the entry does not say."""


@dataclass(frozen=True, slots=True)
class HostCopy:
    """Something that was written from outside: its absolute path, by whom, and from when to when."""

    path: str
    actor: str
    begin: float
    end: float

    def made(self, path: str, at: float) -> bool:
        """Return whether a file that changed at a time (Unix seconds) is of this copy."""
        below = path == self.path or path.startswith(f"{self.path.rstrip('/')}/")
        return below and self.begin - SLACK <= at <= self.end + SLACK


def host_copies(entries: Iterable[Entry]) -> list[HostCopy]:
    """Return the copies that entries of a host tell of."""
    found: list[HostCopy] = []
    for entry in entries:
        details = entry.details
        what = details.get("what")
        path = details.get("place") or details.get("to" if what == "moved" else "path")
        if not entry.host or entry.kind != KIND or what not in _WRITING:
            continue
        if not isinstance(path, str) or not path.startswith("/"):
            continue
        began = details.get("began")
        known = isinstance(began, int | float) and 0 <= began <= entry.at
        begin = float(began) if known and isinstance(began, int | float) else entry.at - _UNKNOWN_BEGIN
        found.append(HostCopy(posixpath.normpath(path), plain(entry.actor or "", 80), begin, entry.at))
    return found


def attributed(change: FileChange, copies: Sequence[HostCopy]) -> FileChange:
    """Return a change with its author from outside, if there is one; then no command did it."""
    if change.at is None or change.change == "deleted":
        return change
    moment = change.at
    actor = next((each.actor for each in reversed(copies) if each.made(change.path, moment)), "")
    return replace(change, by=(), brought_by=actor) if actor else change
