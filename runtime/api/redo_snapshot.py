"""The actions that led to a snapshot, and their repetition: in a new session, or in one that has only the
files.

It chooses where they begin, and runs each in its place and order, until one does not end.
`task/stated_actions` defines the meaning of journal entries, `task/redo_rules` the repeated actions and
equal results. Nothing of the captured session is touched.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from holdfast.base.text import plain
from holdfast.base.value_classes import as_table
from holdfast.errors import HoldfastError, InvalidArgument, SnapshotError
from holdfast.runtime.guest import layout
from holdfast.runtime.history.lineage import family
from holdfast.runtime.journal import journal_query
from holdfast.runtime.restore.compat import snapshot_ladder
from holdfast.runtime.restore.compat.command_history import Recorded
from holdfast.runtime.sessions import option_table
from holdfast.runtime.store.timelines import journal_of, line_of, of_life
from holdfast.runtime.task import redo_rules
from holdfast.runtime.task.redo_rules import RedoneAction, RedoOptions
from holdfast.runtime.task.stated_actions import StatedAction, output_digest, stated_actions

if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.runtime.guest_rpc.patience import Patience
    from holdfast.runtime.guest_rpc.results import CellResult, ExecResult
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.entry import Entry
    from holdfast.runtime.store.rows import SessionRow, SnapshotRow
    from holdfast.runtime.store.store import Store
    from holdfast.snapshots.fitness import Name


def up_to(context: Context, snapshot: SnapshotRow, since: str | None = None) -> list[StatedAction]:
    """Return the actions between an earlier snapshot and this one, the oldest first.

    Args:
        context: the home whose journals are read.
        snapshot: the snapshot that they led to.
        since: the earlier snapshot; by default the last checkpoint before it, or else the session's begin.

    Raises:
        InvalidArgument: `since` is not a snapshot of its past.
        SnapshotNotFound: the snapshot `since` does not exist.
    """
    first = last_checkpoint(context.store, snapshot) if since is None else earlier(context, snapshot, since)
    return between(context, first, snapshot)


def between(context: Context, first: SnapshotRow | None, snapshot: SnapshotRow) -> list[StatedAction]:
    """Return the actions after an ancestor snapshot, or from the session's beginning."""
    begin = None if first is None else first.details.moment
    after = 0 if begin is None else begin.journal_seq or 0
    return stated_actions(entries(context, snapshot), after, 0.0 if begin is None else begin.at or 0.0)


def entries(context: Context, snapshot: SnapshotRow) -> Iterator[Entry]:
    """Yield the entries of the journal up to a snapshot, in order."""
    last = snapshot.details.moment.journal_seq
    until = snapshot.details.moment.at or snapshot.created_at.timestamp()
    for entry in journal_query.read(context, journal_of(snapshot), journal_query.Filter()):
        if entry.at <= until if last is None or entry.host else entry.seq <= last:
            yield entry


def past(store: Store, snapshot: SnapshotRow) -> list[SnapshotRow]:
    """Return the snapshots before one in its lineage, the nearest first."""
    return family.ancestors(snapshot.id, store.snapshots())[1:]


def last_checkpoint(store: Store, snapshot: SnapshotRow) -> SnapshotRow | None:
    """Return the last snapshot before one that was taken as a checkpoint of the task, if there is one."""
    return next((row for row in past(store, snapshot) if _is_checkpoint(row)), None)


def earlier(context: Context, snapshot: SnapshotRow, ref: str) -> SnapshotRow:
    """Return the snapshot that `ref` names, an ancestor of the given one.

    Raises:
        InvalidArgument: it is not.
        SnapshotNotFound: the snapshot does not exist.
    """
    named = context.store.snapshot(ref)
    if named.id not in {row.id for row in past(context.store, snapshot)}:
        raise InvalidArgument(
            f"cannot begin at snapshot {named.name}: it is not an ancestor of {snapshot.name}",
            hint="`holdfast snapshots --tree` shows its ancestors",
        )
    return named


def _is_checkpoint(row: SnapshotRow) -> bool:
    # The record in a snapshot is of its instant: that of a checkpoint names the snapshot itself.
    kept = (row.details.task or {}).get("checkpoint")
    return isinstance(kept, dict) and kept.get("snapshot") in (row.label, row.id)


LIMIT = 600.0
"""Seconds for each command, by default."""


class CommandPlace(Protocol):
    """The session where commands are replayed, as far as replaying needs it."""

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


def replay(
    session: CommandPlace,
    commands: Sequence[Recorded],
    *,
    limit: float = LIMIT,
    report: Callable[[Again], None] = lambda _one: None,
) -> list[Again]:
    """Run all commands, and report each when it has ended."""
    done: list[Again] = []
    for one in commands:
        found = run_again(session, one, limit)
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


def run_again(
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


BaseRung = Literal["live", "files", "fresh"]
BEGIN = "begin"
"""Instead of an earlier snapshot: a fresh session of the same image."""


class RedoPlace(CommandPlace, Protocol):
    """The session in which actions are repeated, as far as repetition needs it."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def name(self) -> str:
        """Its name."""

    def journal(self, *, kinds: Collection[str] | None = None, limit: int | None = None) -> list[Entry]:
        """Return its last entries of these kinds."""


@dataclass(frozen=True, slots=True)
class Redo:
    """The result of `redo`: the repeated actions, and their session.

    Attributes:
        session: the name of the session, which continues.
        session_id: its id.
        base: the snapshot it began from; empty for a fresh session.
        rung: how the base was restored, `live` or `files`; `fresh` without a base.
        actions: all repeated actions, in order.
        left: how many were not reached.
    """

    session: str
    session_id: str
    base: str
    rung: BaseRung
    actions: tuple[RedoneAction, ...]
    left: int = 0

    @property
    def complete(self) -> bool:
        """True if every repeated action had the same outcome."""
        return not self.left and all(each.fate in ("same", "skipped") for each in self.actions)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        return {**as_table(self), "complete": self.complete}


def redo(
    context: Context,
    snapshot: SnapshotRow,
    name: str | None,
    *,
    since: str | None,
    rung: Name | None,
    options: RedoOptions,
    handle: Callable[[SessionRow], RedoPlace],
    report: Callable[[RedoneAction], None],
    patience: Patience | None = None,
) -> Redo:
    """Make a session from an earlier snapshot and repeat the actions that led to this one.

    `handle` makes the handle of a session; for the other arguments see `Snapshot.redo`.

    Raises:
        InvalidArgument: `since` is not of its past, or there is nothing to repeat.
        SnapshotError, EngineError, SessionError: no session could be made; nothing is left of it.
    """
    if rung not in (None, "live", "files"):
        raise InvalidArgument(f"cannot redo as '{plain(str(rung), 40)}'", hint="live or files")
    base, found = _base(context, snapshot, since, rung)
    actions = between(context, base, snapshot)
    _check(actions, snapshot, options)
    row = _fresh(context, snapshot, name) if base is None else _restored(context, base, name, found)
    session = handle(row)
    if base is not None and found == "files":
        _go_to(session, entries(context, base))
    done: list[RedoneAction] = []
    for action in actions:
        if patience is not None and patience.ended:
            break
        one = _redone(session, action, snapshot.name, options)
        done.append(one)
        report(one)
        if one.fate in ("differs", "stopped"):
            break
    left = len(actions) - len(done)
    return Redo(session.name, session.id, "" if base is None else base.name, found, tuple(done), left)


def _check(actions: list[StatedAction], snapshot: SnapshotRow, options: RedoOptions) -> None:
    if not actions:
        raise InvalidArgument(
            f"cannot redo {snapshot.name}: its journal is empty between the two",
            hint="`--from` takes an earlier snapshot",
        )
    known = {each.entry for each in actions}
    if unknown := sorted(set(options.skip) - known):
        raise InvalidArgument(
            f"cannot skip {plain(unknown[0], 40)}: no action began there",
            hint=f"`holdfast replay {snapshot.name} --why` has their numbers",
        )
    if unknown := sorted(set(options.repeat) - {each.key for each in actions if each.key}):
        raise InvalidArgument(f"cannot repeat key {plain(unknown[0], 100)}: no action was sent with it")


def _base(
    context: Context, snapshot: SnapshotRow, since: str | None, rung: Name | None
) -> tuple[SnapshotRow | None, BaseRung]:
    """Return the base and how to restore it: the best possible way, unless one was chosen."""
    if since == BEGIN:
        return None, "fresh"
    chosen = None if since is None else earlier(context, snapshot, since)
    ways: tuple[Literal["live", "files"], ...] = ("live", "files")
    for row in past(context.store, snapshot) if chosen is None else (chosen,):
        if row.state == "ready":
            ladder = snapshot_ladder.ladder(context, row)
            for each in ways:
                if rung in (None, each) and ladder.rung(each).possible:
                    return row, each
    if chosen is not None:
        what = f"{rung} is not possible" if rung else "nothing is possible"
        raise SnapshotError(
            f"cannot redo {snapshot.name}: of snapshot {chosen.name} {what} here",
            hint=f"`holdfast fits {chosen.name}` says why; `--from {BEGIN}` makes a fresh session",
        )
    return None, "fresh"


def _restored(context: Context, base: SnapshotRow, name: str | None, rung: str) -> SessionRow:
    from holdfast.runtime.restore import restore_service

    (row,) = restore_service.restore(context, base, name, 1, "live" if rung == "live" else "files")
    return row


def _fresh(context: Context, snapshot: SnapshotRow, name: str | None) -> SessionRow:
    """Create a session like the first session in the snapshot's line."""
    from holdfast.runtime.lifecycle.create import create

    began = _first(context, snapshot)
    if began is None or began.options.get("secrets"):
        why = "is no longer known" if began is None else "had secrets, which are not kept with it"
        raise InvalidArgument(
            f"cannot redo {snapshot.name} from the beginning: its first session {why}",
            hint="`--from` takes an earlier snapshot",
        )
    kept = {
        key: value
        for key, value in began.options.items()
        if key in option_table.REPEATED and value is not None
    }
    return create(context, name, **kept)


def _first(context: Context, snapshot: SnapshotRow) -> SessionRow | None:
    first = line_of(journal_of(snapshot), context.store.entries.branches())[0].session_id
    return of_life(context.store.sessions(removed=True), first)


def _go_to(session: RedoPlace, entries: Iterable[Entry]) -> None:
    """Enter the shell's former directory; its variables are lost."""
    folder = ""
    for entry in entries:
        if entry.kind == "changed" and not entry.host and entry.details.get("shell") == redo_rules.MAIN:
            both = entry.details.get("cwd")
            if isinstance(both, list) and len(both) == 2 and isinstance(both[1], str):
                folder = both[1]
    if folder.startswith("/") and "\0" not in folder:
        with suppress(HoldfastError):  # whatever is wrong with the session, the first action says so
            session.exec(f"cd -- {shlex.quote(folder)}", timeout=10, reason="the directory of before")


def _redone(session: RedoPlace, action: StatedAction, source: str, options: RedoOptions) -> RedoneAction:
    fate, why = redo_rules.fate(action, options)
    if fate != "repeat":
        return RedoneAction(action, "skipped" if fate == "skip" else "stopped", why)
    recorded = Recorded(action.kind, action.text, action.place, result=action.result)
    reason = f"{action.entry} of {source} again"
    try:
        again = run_again(session, recorded, options.seconds, key=action.key, reason=reason)
        digest = _digest(session, action.kind)
    except HoldfastError as error:
        return RedoneAction(action, "stopped", plain(str(error), 300))
    if again.left_out:
        return RedoneAction(action, "stopped", again.left_out, again.result)
    differs = redo_rules.difference(action, again.result, digest, options)
    return RedoneAction(action, "differs" if differs else "same", differs, again.result, digest)


def _digest(session: RedoPlace, kind: str) -> str:
    """Return the digest of the last output; the session has no other callers."""
    last = session.journal(kinds=[f"{kind}_ended"], limit=1) if kind in ("command", "cell") else []
    return output_digest(last[-1].kind, last[-1].details) if last else ""
