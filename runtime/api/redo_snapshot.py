"""Repeats, in a new session, the actions that led to a snapshot which cannot be restored live.

It chooses where to begin, and runs; what is repeated and what counts as the same is decided in
`task/redo_rules`. Nothing of the captured session is touched.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.base.text import plain
from holdfast.base.value_classes import as_table
from holdfast.errors import HoldfastError, InvalidArgument, SnapshotError
from holdfast.runtime.api import replay_commands, snapshot_actions
from holdfast.runtime.restore.compat import snapshot_ladder
from holdfast.runtime.restore.compat.command_history import Recorded
from holdfast.runtime.sessions import option_table
from holdfast.runtime.store.past_lives import journal_of, of_life
from holdfast.runtime.store.timelines import line_of
from holdfast.runtime.task import redo_rules
from holdfast.runtime.task.redo_rules import RedoneAction, RedoOptions
from holdfast.runtime.task.stated_actions import output_digest

if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.runtime.guest_rpc.patience import Patience
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.entry import Entry
    from holdfast.runtime.store.rows import SessionRow, SnapshotRow
    from holdfast.runtime.task.stated_actions import StatedAction
    from holdfast.snapshots.fitness import Name

BEGIN = "begin"
"""Instead of an earlier snapshot: a fresh session of the same image."""


class RedoPlace(replay_commands.CommandPlace, Protocol):
    """The session in which actions are repeated, as far as that takes."""

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
    rung: str
    actions: tuple[RedoneAction, ...]
    left: int = 0

    @property
    def complete(self) -> bool:
        """True if everything that was to be repeated came out the same."""
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
    actions = snapshot_actions.between(context, base, snapshot)
    _check(actions, snapshot, options)
    row = _fresh(context, snapshot, name) if base is None else _restored(context, base, name, found)
    session = handle(row)
    if base is not None and found == "files":
        _go_to(session, snapshot_actions.entries(context, base))
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
            f"cannot redo {snapshot.name}: its journal has nothing between the two",
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
) -> tuple[SnapshotRow | None, str]:
    """Return the base and how to restore it: the best possible way, unless one was chosen."""
    if since == BEGIN:
        return None, "fresh"
    chosen = None if since is None else snapshot_actions.earlier(context, snapshot, since)
    for row in snapshot_actions.past(context.store, snapshot) if chosen is None else (chosen,):
        if row.state == "ready":
            ladder = snapshot_ladder.ladder(context, row)
            for each in ("live", "files") if rung is None else (rung,):
                if ladder.rung(each).possible:
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
    """Make a session like the one in which the line of the snapshot began."""
    from holdfast.runtime.lifecycle.create import create

    began = _first(context, snapshot)
    if began is None or began.options.get("secrets"):
        why = "is not known any more" if began is None else "had secrets, which are not kept with it"
        raise InvalidArgument(
            f"cannot redo {snapshot.name} from its begin: the session it began in {why}",
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
    """Enter the directory in which the shell was; its variables are not there any more."""
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
        again = replay_commands.again(session, recorded, options.seconds, key=action.key, reason=reason)
        digest = _digest(session, action.kind)
    except HoldfastError as error:
        return RedoneAction(action, "stopped", plain(str(error), 300))
    if again.left_out:
        return RedoneAction(action, "stopped", again.left_out, again.result)
    differs = redo_rules.difference(action, again.result, digest, options)
    return RedoneAction(action, "differs" if differs else "same", differs, again.result, digest)


def _digest(session: RedoPlace, kind: str) -> str:
    """Return the digest of the last output; no other caller uses the session."""
    last = session.journal(kinds=[f"{kind}_ended"], limit=1) if kind in ("command", "cell") else []
    return output_digest(last[-1].kind, last[-1].details) if last else ""
