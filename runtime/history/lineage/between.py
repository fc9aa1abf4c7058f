"""A summary of what was run between two points of a line of sessions.  Pure."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from holdfast.base.text import plain
from holdfast.base.value_classes import as_table
from holdfast.runtime.store.timelines import Branch, line_of

if TYPE_CHECKING:
    from holdfast.runtime.store.journal_entries import EntryRow

KINDS = {"command_started": "command", "cell_started": "code", "job_started": "command", "input": "text"}
"""Journal entries of things that were run, and the field with their text."""
_WORDS = {"command_started": "command", "cell_started": "cell", "job_started": "job", "input": "input"}
SAMPLES = 3
LONGEST = 60


@dataclass(frozen=True, slots=True)
class Ran:
    """How much was run, and the first of it: first lines, truncated."""

    commands: int = 0
    cells: int = 0
    jobs: int = 0
    inputs: int = 0
    samples: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.commands or self.cells or self.jobs or self.inputs)

    @property
    def text(self) -> str:
        """The summary as one line; empty if nothing was run."""
        counts = zip((self.commands, self.cells, self.jobs, self.inputs), _WORDS.values(), strict=True)
        counted = ", ".join(
            f"{number} {word}{'s' if number > 1 else ''}" for number, word in counts if number
        )
        more = "; …" if self.samples and self.commands + self.cells + self.jobs > len(self.samples) else ""
        return f"{counted}: {'; '.join(self.samples)}{more}" if self.samples else counted

    def as_dict(self) -> dict[str, Any]:
        """Return the summary for programs."""
        return as_table(self)


class OrderedEntries:
    """Journal entries, ordered for queries about stretches of them."""

    def __init__(self, entries: Iterable[EntryRow], branches: Mapping[str, Branch]) -> None:
        """Take entries that are in order within each session."""
        self._branches = branches
        self._of: dict[str, list[EntryRow]] = {}
        for entry in entries:
            self._of.setdefault(entry.session_id, []).append(entry)

    def ran(self, journal: str, after: int, until: int | None = None) -> Ran:
        """Summarize what was run in the line of a journal after one entry, up to another."""
        found: list[EntryRow] = []
        for part in line_of(journal, self._branches):
            last = until if part.position is None else part.position
            found += self._stretch(part.session_id, after, _least(last, until))
        return summed(found)

    def _stretch(self, journal: str, after: int, until: int | None) -> list[EntryRow]:
        entries = self._of.get(journal, [])
        begin = bisect_right(entries, after, key=_number)
        return entries[begin : None if until is None else bisect_right(entries, until, key=_number)]


def _number(entry: EntryRow) -> int:
    return entry.seq


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def summed(entries: Sequence[EntryRow]) -> Ran:
    """Summarize these entries."""
    count = Counter(entry.kind for entry in entries)
    shown = (text for entry in entries if entry.kind != "input" and (text := _text(entry)))
    return Ran(
        count["command_started"],
        count["cell_started"],
        count["job_started"],
        count["input"],
        tuple(islice(shown, SAMPLES)),
    )


def _text(entry: EntryRow) -> str:
    value = entry.body.get(KINDS.get(entry.kind, ""), "")
    text = value if isinstance(value, str) else json.dumps(value)
    head, _, rest = text.strip().partition("\n")
    head = plain(head, LONGEST + 1)
    cut = len(head) > LONGEST or rest.strip()
    return f"{head[:LONGEST].rstrip()}…" if cut else head
