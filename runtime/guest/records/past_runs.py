"""The work before the supervisor was restarted: commands, cells, programs and jobs, from the journal.

Callers that lost their connection ask for the same run again, by its id. It must not be run twice: it can
be the cause of the supervisor's end. Knows the entries of the journal, and nothing of how they came there.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest.records.journal import Journal

LOOKED_AT = 4096
"""Entries of the journal, from its end. A caller is back within half a minute, or never."""
MOST = 4096
"""Ids of this supervisor's own runs that are remembered."""
SHOWN = 4
_KINDS = ("command", "cell", "run", "job")
_LONGEST = 200
_KILLED = "the session's supervisor was killed, and every process of the session with it; files are unchanged"
_REPLACED = "the session's supervisor was killed; its shells, kernels and jobs continue"


@dataclass(slots=True)
class PastRun:
    """A run of an earlier supervisor. `ended` is the number of the entry of its end, if it has one."""

    kind: str
    fields: dict[str, str]
    ended: int | None = None


class PastRuns:
    """The runs of the supervisors before this one."""

    def __init__(self, journal: Journal, adopted: Collection[str] | None = None) -> None:
        """Read them from the journal of a session that is started again.

        `adopted` are the runs that continue; None if nothing of the session does.
        """
        self._runs: dict[str, PastRun] = {}
        self._own: dict[str, None] = dict.fromkeys(adopted or ())
        self._why = _KILLED if adopted is None else _REPLACED
        kinds = [
            "woken",
            "restarted",
            *(f"{kind}_{step}" for kind in _KINDS for step in ("started", "ended")),
        ]
        for entry in journal.entries(max(0, journal.last - LOOKED_AT), LOOKED_AT, kinds):
            if entry["kind"] in ("woken", "restarted"):
                if entry.get("begins"):
                    self._runs.clear()  # of a life before the last one
                continue
            id_, (kind, _, step) = str(entry.get("id")), entry["kind"].partition("_")
            if step == "started":
                self._runs[id_] = _run(id_, kind, entry)
            elif id_ in self._runs:
                self._runs[id_].ended = entry["seq"]

    def refusal(self, id_: object, *, again: bool) -> str | None:
        """Return why the result of a run is unavailable; None for runs of this supervisor, and new ones.

        `again`: the caller has asked before, and got no answer.
        """
        if not isinstance(id_, str) or id_ in self._own:
            return None
        run = self._runs.get(id_)
        if run is not None and run.ended is not None:
            return (
                f"cannot return the result of the {run.kind} (entry {run.ended} of the journal): {self._why}"
            )
        if run is not None:
            return f"cannot know how the {run.kind} ended: while it ran, {self._why}"
        if again:
            return f"cannot know whether that ran: {self._why}"
        self._own[id_] = None
        while len(self._own) > MOST:
            del self._own[next(iter(self._own))]
        return None

    def cut_off(self) -> list[dict[str, str]]:
        """Return the latest unfinished ones, for an entry of the journal."""
        lost = (run for id_, run in self._runs.items() if run.ended is None and id_ not in self._own)
        return [run.fields for run in lost][-SHOWN:]


def _run(id_: str, kind: str, entry: dict[str, Any]) -> PastRun:
    text = next((str(entry[key]) for key in ("command", "code", "argv") if key in entry), "")
    name = "program" if kind == "run" else kind
    fields = {"kind": name, "id": id_, "command": text[:_LONGEST], "actor": str(entry.get("actor", ""))}
    return PastRun(name, fields)
