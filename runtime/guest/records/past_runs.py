"""What was run before the supervisor was started again: commands, cells, programs and jobs, from the journal.

Callers that lost their connection ask for the same run again, by its id. It must not be run twice: it may have
been the very command that ended the supervisor. Knows the entries of the journal, and nothing of how they came.
"""

from __future__ import annotations

from typing import Any

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest.records.journal import Journal

LOOKED_AT = 4096
"""Entries of the journal, from its end. A caller is back within half a minute, or never."""
_KINDS = ("command", "cell", "run", "job")
SHOWN = 4
_LONGEST = 200


@dataclass(slots=True)
class PastRun:
    """A run of a supervisor that is gone. `ended` is the entry of its end, if it came to that."""

    id: str
    kind: str
    text: str
    actor: str
    ended: dict[str, Any] | None = None

    def refusal(self) -> str:
        """Return why its result cannot be had."""
        if self.ended is None:
            return (
                f"cannot know how the {self.kind} ended: the session's supervisor was killed while it ran, and "
                "everything in the session with it; files are as they were"
            )
        return (
            f"cannot return the result of the {self.kind}: the session was started again since; the journal "
            f"has it (entry {self.ended['seq']})"
        )


class PastRuns:
    """The runs of the supervisors before this one."""

    def __init__(self) -> None:
        self._runs: dict[str, PastRun] = {}

    def read(self, journal: Journal) -> None:
        """Read them from the journal."""
        kinds = [f"{kind}_{step}" for kind in _KINDS for step in ("started", "ended")]
        for entry in journal.entries(max(0, journal.last - LOOKED_AT), LOOKED_AT, kinds):
            id_, (kind, _, step) = entry.get("id"), entry["kind"].partition("_")
            if not isinstance(id_, str):
                continue
            if step == "ended":
                if id_ in self._runs:
                    self._runs[id_].ended = entry
                continue
            text = next((entry[key] for key in ("command", "code", "argv") if key in entry), "")
            name = "program" if kind == "run" else kind
            self._runs[id_] = PastRun(id_, name, str(text)[:_LONGEST], str(entry.get("actor", "")))

    def find(self, id_: object) -> PastRun | None:
        """Return the run of that id."""
        return self._runs.get(id_) if isinstance(id_, str) else None

    def cut_off(self) -> list[dict[str, str]]:
        """Return the latest of those that had not ended, for an entry of the journal."""
        open_ = [run for run in self._runs.values() if run.ended is None]
        return [
            {"kind": run.kind, "id": run.id, "command": run.text, "actor": run.actor}
            for run in open_[-SHOWN:]
        ]
