"""What changed in a session since a moment, as a value.  Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from holdfast.runtime.history.drift.authors import Author
from holdfast.runtime.history.drift.changed_paths import FileChange
from holdfast.runtime.history.drift.changes import Changed, ProcessChange
from holdfast.runtime.history.drift.packages import Package
from holdfast.runtime.history.drift.since import Moment


@dataclass(frozen=True, slots=True)
class Drift:
    """All changes of a session between `since` and the time of asking (`at`, Unix seconds).

    `files` leaves out what belongs to `packages` and what is noise (`noise` counts that: caches, histories,
    books of package managers). `by` of each item holds numbers of journal entries, which `authors` explains.
    `notes` say what could not be told.
    """

    session: str
    since: Moment
    at: float
    files: tuple[FileChange, ...] = ()
    packages: tuple[Package, ...] = ()
    processes: tuple[ProcessChange, ...] = ()
    shell: tuple[Changed, ...] = ()
    kernel: tuple[Changed, ...] = ()
    authors: Mapping[int, Author] = field(default_factory=dict)
    noise: int = 0
    notes: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing changed."""
        return not (self.files or self.packages or self.processes or self.shell or self.kernel)

    def text(self, limit: int = 12, *, every_file: bool = False) -> str:
        """Return it in few words, for an agent's context or a person.

        Args:
            limit: about how many lines each list has; files are folded into folders for it.
            every_file: name every file.
        """
        from holdfast.runtime.history.drift.drift_text import render

        return render(self, limit, every_file=every_file)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it for programs."""
        return {
            "session": self.session,
            "since": {
                "label": self.since.label,
                "at": _iso(self.since.at),
                "seq": self.since.seq,
                "snapshot": self.since.snapshot_id,
            },
            "at": _iso(self.at),
            "files": [
                {
                    "path": f.path,
                    "change": f.change,
                    "bytes": f.size,
                    "at": f.at and _iso(f.at),
                    "by": list(f.by),
                }
                for f in self.files
            ],
            "packages": [
                {
                    "manager": p.manager,
                    "name": p.name,
                    "old": p.old,
                    "new": p.new,
                    "place": p.place,
                    "files": p.files,
                    "by": list(p.by),
                }
                for p in self.packages
            ],
            "processes": [
                {
                    "pid": p.pid,
                    "command": p.command,
                    "change": p.change,
                    "ports": list(p.ports),
                    "closed": list(p.closed),
                    "ended": p.ended or None,
                    "by": list(p.by),
                }
                for p in self.processes
            ],
            "shell": [_changed(item, "shell") for item in self.shell],
            "kernel": [_changed(item, "kernel") for item in self.kernel],
            "authors": {
                str(seq): {
                    "kind": one.kind,
                    "id": one.id,
                    "actor": one.actor,
                    "text": one.text,
                    "begin": _iso(one.begin),
                    "end": None if math.isinf(one.end) else _iso(one.end),
                }
                for seq, one in self.authors.items()
            },
            "noise": self.noise,
            "notes": list(self.notes),
        }


def _changed(item: Changed, owner: str) -> dict[str, Any]:
    return {
        owner: item.where,
        "kind": item.kind,
        "name": item.name,
        "change": item.change,
        "old": item.old,
        "new": item.new,
        "exported": item.exported,
        "by": list(item.by),
    }


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()
