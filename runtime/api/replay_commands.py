"""Replays recorded commands in a session that has only the files, on request.

Each runs in its place and order. The replay stops at the first that does not end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.base.text import plain
from holdfast.runtime.guest import layout
from holdfast.runtime.restore.compat.command_history import Recorded

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.results import CellResult, ExecResult

LIMIT = 600.0
"""Seconds for each command, by default."""


class CommandPlace(Protocol):
    """Where commands are replayed: a session, as far as that takes."""

    def exec(
        self,
        command: str,
        *,
        timeout: float | None = None,
        key: str | None = None,
        reason: str | None = None,
    ) -> ExecResult:
        """Run a command in the shell."""

    def cell(
        self,
        code: str,
        *,
        timeout: float | None = None,
        key: str | None = None,
        reason: str | None = None,
    ) -> CellResult:
        """Run code in the kernel."""

    def detach(self, command: str, *, name: str | None = None) -> object:
        """Start a job."""

    def interrupt(self) -> object:
        """Interrupt the command that runs."""

    def join(self, command_id: str, *, wait: bool = False, patience: float | None = None) -> ExecResult:
        """Follow a command to its end."""


@dataclass(frozen=True, slots=True)
class Again:
    """The outcome of replaying a recorded command; `left_out` says why it was not run, or did not end."""

    recorded: Recorded
    result: int | str | None = None
    left_out: str = ""

    @property
    def same(self) -> bool:
        """True if the outcome equals the recorded one."""
        return not self.left_out and self.result == self.recorded.result

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        fields = {"kind": self.recorded.kind, "text": self.recorded.text, "recorded": self.recorded.result}
        return {**fields, "result": self.result, "left_out": self.left_out, "same": self.same}


def run(
    session: CommandPlace,
    commands: Sequence[Recorded],
    *,
    limit: float = LIMIT,
    report: Callable[[Again], None] = lambda _one: None,
) -> list[Again]:
    """Run all commands, and report each when it has ended."""
    done: list[Again] = []
    for one in commands:
        found = again(session, one, limit)
        done.append(found)
        report(found)
        if found.left_out and not _skipped(one):
            break
    return done


def _skipped(one: Recorded) -> str:
    if one.cut:
        return "it was recorded truncated"
    if one.kind != "job" and one.place not in ("", layout.MAIN):
        return f"there is no {'kernel' if one.kind == 'cell' else 'shell'} {plain(one.place, 60)}"
    return ""


def again(
    session: CommandPlace, one: Recorded, limit: float, *, key: str | None = None, reason: str | None = None
) -> Again:
    """Run one command, cell or job, and return its outcome.

    Args:
        session: where it runs.
        one: the action to repeat.
        limit: its time limit in seconds.
        key: the idempotency key, under which it runs at most once in the session.
        reason: for the journal.
    """
    if why := _skipped(one):
        return Again(one, left_out=why)
    if one.kind == "job":
        session.detach(one.text, name=one.place or None)
        return Again(one, one.result)
    if one.kind == "cell":
        cell = session.cell(one.text, timeout=limit, key=key, reason=reason)
        return Again(one, cell.status, "it waits for an answer" if cell.waiting else "")
    found = session.exec(one.text, timeout=limit, key=key, reason=reason)
    if found.waiting:
        session.interrupt()
        session.join(found.command_id, wait=True, patience=limit)
        asked = plain(found.waiting.prompt or found.waiting.detail or "", 100)
        return Again(one, left_out=f"it waits ({asked})")
    if found.timed_out or found.shell_exited:
        why = f"it took longer than {limit:g} s" if found.timed_out else "the shell ended"
        return Again(one, found.exit_code, why)
    return Again(one, found.exit_code)
