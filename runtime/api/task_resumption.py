"""The continuation of a task: bringing its session back to life, and the changes there in the meantime.

It resumes and rewinds the session; it changes no record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from holdfast.base.suggestion import command
from holdfast.base.text import plain
from holdfast.runtime.api import task_checkpoints
from holdfast.runtime.guest import defaults
from holdfast.runtime.task import handoff, task_import, task_items
from holdfast.runtime.task import handoff as handing
from holdfast.runtime.task.task_record import LONGEST_TEXT

if TYPE_CHECKING:
    from holdfast.runtime.api.session_insight import SessionInsight
    from holdfast.runtime.guest_rpc.shell_report import ShellInfo
    from holdfast.runtime.history.drift.drift_result import Drift
    from holdfast.runtime.history.repositories.repository_state import RepositoryChange
    from holdfast.runtime.store.rows import SessionRow
    from holdfast.runtime.store.store import Store
    from holdfast.runtime.task.task_changes import Stamp, TaskChange
    from holdfast.runtime.task.task_record import TaskRecord

_LATEST = 50
"""Commands among which the running ones are looked for: each shell has at most one."""
_LATEST_KEYED = 200
"""Entries among which commands with a key are looked for that the record does not have."""
BroughtBack = Literal["running", "resumed", "rewound"]


@dataclass(frozen=True, slots=True)
class TaskResumed:
    """A task that can be continued.

    `how` says what was done to the session: `running` (nothing), `resumed` (it was suspended) or `rewound`
    (it was dead; it continues from its last checkpoint). `drift` lists the changes since the checkpoint, or
    since the record was written if there is none; None if that is not known. `repositories` are the Git
    repositories that do not stand where they stood at the checkpoint. `running` are the commands that run
    in the shells, `ran` the ended commands with a key that are recorded at no step; a line each. `undone`
    names items of the record that the checkpoint does not have.
    """

    record: TaskRecord
    how: str
    drift: Drift | None
    repositories: tuple[RepositoryChange, ...] = ()
    running: tuple[str, ...] = ()
    ran: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()

    def text(self, limit: int = 12) -> str:
        """Return the changes in a few lines; empty without changes, or if they are not known.

        Args:
            limit: about how many lines each list has.
        """
        changed = [self.drift.text(limit)] if self.drift is not None and not self.drift.empty else []
        return "\n".join([*changed, *(each.text for each in self.repositories)])

    def handoff(
        self, session: str, budget: int = handing.UNLIMITED, limit: int = handing.MOST_CHANGES
    ) -> str:
        """Return the handoff that a successor must read to continue, as `SessionTask.handoff` does.

        Args:
            session: its name.
            budget: the most tokens.
            limit: about how many lines each list of changes has.

        Raises:
            InvalidArgument: the budget is too small for the goal.
        """
        standing = list(self.running)
        if self.undone:
            standing.append(f"Undone by going back: {task_import.quoted(self.undone)}")
        return handing.handoff(
            session, self.record, budget, self.text(limit), "\n".join(standing), ran=self.ran
        )


def running_commands(name: str, shells: Sequence[ShellInfo], insight: SessionInsight) -> list[str]:
    """Return a line for each running command in the shells of a session: entry, key, how to wait for it."""
    running = {shell.command_id: shell.name for shell in shells if shell.command_id is not None}
    if not running:
        return []
    lines: list[str] = []
    for entry in insight.journal(kinds=["command_started"], limit=_LATEST):
        shell = running.get(str(entry.details.get("id")))
        if shell is None:
            continue
        key = entry.details.get("key")
        sent = f", sent with key {plain(str(key), 80)}: the same key joins it" if key else ""
        where = () if shell == defaults.MAIN else ("--shell", shell)
        # By its id it can be waited for after it has ended as well.
        wait = command("wait", *where, name, str(entry.details.get("id")))
        text = plain(str(entry.details.get("command", "")), 120)
        lines.append(f"Runs now: #{entry.seq} `{text}`{sent}; `{wait}` waits for it")
    return lines


def keyed_commands(insight: SessionInsight, record: TaskRecord) -> list[str]:
    """Return the commands that were sent with a key, have ended and are recorded at no step, a line each."""
    entries = insight.journal(kinds=handoff.KEYED_KINDS, limit=_LATEST_KEYED)
    return [each.text for each in handoff.keyed_work(entries, record)]


def undone(before: TaskRecord, now: TaskRecord) -> tuple[str, ...]:
    """Return the items of a record that were lost when its session went back."""
    return tuple(task_import.lacking(before, now))


def undone_noted(record: TaskRecord | None, stamp: Stamp, gone: Sequence[str]) -> TaskChange:
    """Record the items that the rewind has undone, for later successors."""
    text = f"undone by going back, and still in the journal: {task_import.quoted(gone)}"
    return task_items.note(record, stamp, plain(text, LONGEST_TEXT))


class BroughtBackSession(Protocol):
    """A session, as far as bringing it back needs it."""

    @property
    def row(self) -> SessionRow:
        """The session's row in the store."""

    def resume(self) -> object:
        """Resume the session from its suspension."""

    def rewind(self, snapshot: str, *, reason: str | None = None) -> object:
        """Let the session continue from a snapshot."""


def bring_back(session: BroughtBackSession, state: str, store: Store, record: TaskRecord) -> BroughtBack:
    """Resume a suspended session, rewind a dead one to the task's checkpoint or its last snapshot.

    `state` is its present state.

    Raises:
        SessionError, SnapshotError: it cannot be brought back.
    """
    if state == "running":
        return "running"
    if state == "suspended":
        session.resume()
        return "resumed"
    session.rewind(task_checkpoints.to_return_to(store, session.row, record), reason="to continue its task")
    return "rewound"
