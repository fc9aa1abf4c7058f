"""The authors of changes, as far as the journal reveals them; and files that were written from this host.
Pure.

No command of the session wrote these, so no entry of its own journal has them: the host's entries do. A file
is attributed to a copy if it is at or below the place that was written, and changed while it was.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from holdfast.base.text import plain
from holdfast.runtime.guest.records import masking

if TYPE_CHECKING:
    from holdfast.runtime.history.drift.changed_paths import FileChange
    from holdfast.runtime.store.entry import Entry


SLACK = 0.02
"""Seconds: the kernel stamps files with the time of its last tick, up to 10 ms earlier, never later."""
MOST = 4
"""If more than this many ran together, the author is unknown."""
_STARTS = {"command_started": "command", "cell_started": "cell", "job_started": "job", "attached": "person"}
_ENDS = {"command_ended": "command", "cell_ended": "cell", "job_ended": "job", "detached": "person"}

EntryTable = Mapping[str, Any]
HOST_KIND = "files"
"""The kind of the host's entries about files."""
_WRITING = ("copied in", "wrote", "moved")
_UNKNOWN_BEGIN = 2.0
"""Seconds before its entry in which a copy can have begun, if the entry does not tell."""


@dataclass(frozen=True, slots=True)
class Author:
    """One journal entry that starts something. `end` is infinite while it runs."""

    seq: int
    kind: str
    id: str
    actor: str
    text: str
    begin: float
    end: float = math.inf


@dataclass(frozen=True, slots=True)
class Authors:
    """The authors in a span of time, by the number of their entry."""

    by_seq: Mapping[int, Author] = field(default_factory=dict)

    def at(self, moment: float | None) -> tuple[int, ...]:
        """Return the authors at a time (Unix seconds); empty if unknown, or if there were too many."""
        if moment is None:
            return ()
        found = [one for one in self.by_seq.values() if one.begin - SLACK <= moment <= one.end]
        acting = [one for one in found if one.kind != "person"] or found
        chosen = [one for one in acting if one.begin <= moment]
        if not chosen and acting:  # the stamp is of the tick before: the first that started after it
            chosen = [min(acting, key=lambda one: one.begin)]
        return tuple(sorted(one.seq for one in chosen)) if len(chosen) <= MOST else ()

    def of(self, id_: str) -> tuple[int, ...]:
        """Return the command, cell or job of that id."""
        return tuple(one.seq for one in self.by_seq.values() if id_ and one.id == id_)


def authors(entries: Iterable[EntryTable]) -> Authors:
    """Read starts and ends from journal entries; invalid ones are skipped."""
    found: dict[int, Author] = {}
    open_: dict[tuple[str, str], int] = {}
    for entry in entries:
        seq, at, kind = entry.get("seq"), entry.get("at"), entry.get("kind")
        if not isinstance(seq, int) or not isinstance(at, int | float) or not isinstance(kind, str):
            continue
        if kind in _STARTS:
            sort = _STARTS[kind]
            actor, text = _text(entry, "actor") or "agent", _first(entry)
            id_ = actor if sort == "person" else _text(entry, "id")
            found[seq] = Author(seq, sort, id_, actor, text, began_at(entry, at))
            open_[sort, id_] = seq
        elif kind in _ENDS:
            sort = _ENDS[kind]
            id_ = _text(entry, "actor") if sort == "person" else _text(entry, "id")
            begun = open_.pop((sort, id_), None)
            if begun is not None:
                found[begun] = replace(found[begun], end=float(at))
    return Authors(found)


def began_at(entry: EntryTable, at: float) -> float:
    """Return the earliest start of the work of an entry, which is under way while the entry is written."""
    earliest = entry.get("not_before")
    return float(earliest if isinstance(earliest, int | float) and 0 <= earliest <= at else at)


def _first(entry: EntryTable) -> str:
    for key in ("command", "code", "text"):
        if text := _text(entry, key):
            line = text.strip().partition("\n")[0]
            return plain(masking.command(line if line == text.strip() else f"{line} …"), 200)
    return ""


def _text(entry: EntryTable, key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""


def by_name(
    entries: Sequence[EntryTable], after: int, known: Authors
) -> dict[tuple[str, str, str], tuple[int, ...]]:
    """Return the authors of variables, functions, aliases and kernel names, by (kind, where, name)."""
    found: dict[tuple[str, str, str], tuple[int, ...]] = {}
    for entry in entries:
        seq = entry.get("seq")
        if entry.get("kind") != "changed" or not isinstance(seq, int) or seq <= after:
            continue
        ids = entry.get("ids")
        every = ids if isinstance(ids, list) else [entry.get("id")]
        who = tuple(number for one in every if isinstance(one, str) for number in known.of(one))
        for where, kind, key in _names(entry):
            found[kind, where, key] = who
    return found


def _names(entry: EntryTable) -> Iterable[tuple[str, str, str]]:
    for owner, tables in (
        ("shell", {"variables": "variable", "functions": "function", "aliases": "alias"}),
        ("kernel", {"names": "name"}),
    ):
        where = _text(entry, owner)
        if not where:
            continue
        for table, kind in tables.items():
            names = entry.get(table)
            if isinstance(names, dict):
                yield from ((where, kind, str(key)) for key in names)
        if "cwd" in entry:
            yield where, "directory", "cwd"
        if "umask" in entry:
            yield where, "umask", "umask"


@dataclass(frozen=True, slots=True)
class HostCopy:
    """A write from outside: its absolute path, its author, and its time span."""

    path: str
    actor: str
    begin: float
    end: float

    def made(self, path: str, at: float) -> bool:
        """Return whether a file that changed at a time (Unix seconds) belongs to this copy."""
        below = path == self.path or path.startswith(f"{self.path.rstrip('/')}/")
        return below and self.begin - SLACK <= at <= self.end + SLACK


def host_copies(entries: Iterable[Entry]) -> list[HostCopy]:
    """Return the copies recorded in a host's entries."""
    found: list[HostCopy] = []
    for entry in entries:
        details = entry.details
        what = details.get("what")
        path = details.get("place") or details.get("to" if what == "moved" else "path")
        if not entry.host or entry.kind != HOST_KIND or what not in _WRITING:
            continue
        if not isinstance(path, str) or not path.startswith("/"):
            continue
        began = details.get("began")
        known = isinstance(began, int | float) and 0 <= began <= entry.at
        begin = float(began) if known and isinstance(began, int | float) else entry.at - _UNKNOWN_BEGIN
        found.append(HostCopy(posixpath.normpath(path), plain(entry.actor or "", 80), begin, entry.at))
    return found


def attributed(change: FileChange, copies: Sequence[HostCopy]) -> FileChange:
    """Return a change with its author from outside, if any; then no command made it."""
    if change.at is None or change.change == "deleted":
        return change
    moment = change.at
    actor = next((each.actor for each in reversed(copies) if each.made(change.path, moment)), "")
    return replace(change, by=(), brought_by=actor) if actor else change
