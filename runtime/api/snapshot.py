"""A handle on one snapshot.

How sessions are restored is in `runtime.restore`, imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from holdfast.base.delegation import delegate
from holdfast.errors import InvalidArgument
from holdfast.runtime.api.bundles import Outgoing
from holdfast.runtime.api.snapshot_trials import SnapshotTrials

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from holdfast.runtime.api.redo_snapshot import Redo
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.guest_rpc.patience import Patience
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.restore.compat.command_history import Recorded
    from holdfast.runtime.store.rows import SnapshotKind, SnapshotRow
    from holdfast.runtime.task.redo_rules import RedoneAction
    from holdfast.runtime.task.stated_actions import StatedAction
    from holdfast.snapshots.failure import Failure
    from holdfast.snapshots.fitness import Ladder, Name

# A larger number is likely a mistake; each fork takes the memory of a session.
FORKS = 256


def check_forks(n: int) -> None:
    """Check the number of copies.

    Raises:
        InvalidArgument: there are none, or too many.
    """
    if not 1 <= n <= FORKS:
        raise InvalidArgument(f"cannot fork {n} times: the number must be from 1 to {FORKS}")


class Snapshot:
    """One snapshot."""

    def __init__(self, context: Context, row: SnapshotRow) -> None:
        self._context = context
        self._row = row

    @property
    def _outgoing(self) -> Outgoing:
        return Outgoing(self._context, self._row)

    @property
    def _trials(self) -> SnapshotTrials:
        return SnapshotTrials(self._context, self._row)

    export = delegate("_outgoing", Outgoing.export)
    push = delegate("_outgoing", Outgoing.push)
    retry = delegate("_trials", SnapshotTrials.retry)
    tried = delegate("_trials", SnapshotTrials.tried)

    def __repr__(self) -> str:
        return f"<Snapshot {self.name} {self.kind} {self.state}>"

    @property
    def id(self) -> str:
        """12 hex digits."""
        return self._row.id

    @property
    def name(self) -> str:
        """Its label, or its id if it has none."""
        return self._row.name

    @property
    def label(self) -> str | None:
        """The name it was given."""
        return self._row.label

    @property
    def kind(self) -> SnapshotKind:
        """`live` or `filesystem`."""
        return self._row.kind

    @property
    def state(self) -> str:
        """`ready`, or `damaged` if a part was found missing or changed."""
        return self._row.state

    @property
    def size(self) -> int:
        """The bytes it takes on this host beyond the image its session was made from, and beyond what it
        shares. Memory counts as it was written until it is packed, soon after the snapshot was taken.
        """
        return self._row.bytes

    @property
    def shared(self) -> int:
        """The bytes of those pages of its memory that older snapshots also need."""
        stored = self._row.details.storage
        return 0 if stored is None else int(stored["shared"])

    @property
    def created_at(self) -> datetime:
        """When it was taken, in UTC."""
        return self._row.created_at

    @property
    def session_id(self) -> str:
        """The session it was taken of."""
        return self._row.session_id

    @property
    def parent_id(self) -> str | None:
        """The snapshot before it in the lineage."""
        return self._row.parent_snapshot_id

    @property
    def reason(self) -> str | None:
        """The reason it was taken, as given then."""
        return self._row.reason

    @property
    def failure(self) -> Failure | None:
        """The failure it was taken for; None if it was taken for another reason."""
        from holdfast.snapshots.failure import of_row

        return of_row(self._row.details)

    @property
    def pinned(self) -> bool:
        """True if it is kept until it is removed by hand."""
        return self._row.pinned

    @property
    def template(self) -> bool:
        """True if sessions are started from it by its label: `Session.template` made it."""
        return self._row.details.template

    @property
    def row(self) -> SnapshotRow:
        """The snapshot's row in the store."""
        return self._row

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        return {
            "id": self.id,
            "name": self.name,
            "label": self.label,
            "kind": self.kind,
            "state": self.state,
            "session_id": self.session_id,
            "parent_id": self.parent_id,
            "bytes": self.size,
            "shared_bytes": self.shared,
            "created_at": self.created_at.isoformat(),
            "reason": self.reason,
            "pinned": self.pinned,
            "template": self.template,
            **self._row.details.listed,
        }

    def restore(
        self,
        name: str | None = None,
        *,
        rung: Name | None = None,
        network: str | None = None,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        keep_id: bool = False,
    ) -> Session:
        """Make a session that continues from here: a copy of the captured one, with an id of its own.

        Args:
            name: must be free; by default one is generated.
            rung: `files`: restore the files only. `commands`: the files, and a script of the past
                commands, which is not run. By default everything that was kept, and nothing less.
            network: the hosts that it can reach: `internet`, `none` or `open`; by default as for the captured
                session.
            allow: exceptions, HOST:PORT, in addition to the captured session's.
            deny: addresses and networks to close, in addition to the captured session's.
            keep_id: it is not a copy, but the captured session itself, under its id and, unless `name` says
                otherwise, its name: because its machine is lost, or because it was removed.

        Raises:
            LiveUnsupported: that is not possible on this machine. `findings` says why, `fits` what is
                possible.
            SessionExists, SnapshotDamaged, RestoreFailed: nothing is left of it; the snapshot is untouched.
        """
        if not keep_id:
            return self.fork(1, name, rung=rung, network=network, allow=allow, deny=deny, eager=True)[0]
        from holdfast.runtime.api.session import Session
        from holdfast.runtime.restore import restore_service

        row = restore_service.recover(self._context, self._row, name, rung, network, allow, deny)
        return Session(self._context, row)

    def recorded(self) -> list[Recorded]:
        """Return the commands up to the snapshot since its processes began, as far as they are known."""
        from holdfast.runtime.restore.compat import command_history as recorded

        return recorded.recorded(self._context, self._row)

    def actions(self, since: str | None = None) -> list[StatedAction]:
        """Return each action that led to it, with its stated reason and its result, the oldest first.

        Args:
            since: a snapshot of its past, after which they begin; by default the last checkpoint before it,
                or else the session's begin.

        Raises:
            InvalidArgument: `since` is not of its past.
            SnapshotNotFound: the snapshot `since` does not exist.
        """
        from holdfast.runtime.api import redo_snapshot

        return redo_snapshot.up_to(self._context, self._row, since)

    def redo(
        self,
        name: str | None = None,
        *,
        since: str | None = None,
        rung: Name | None = None,
        skip: Sequence[str] = (),
        repeat: Sequence[str] = (),
        exit_codes: bool = False,
        timeout: float = 600.0,
        on_action: Callable[[RedoneAction], None] = lambda _action: None,
        patience: Patience | None = None,
    ) -> Redo:
        """Repeat the actions that led to it in a new session, where it cannot be restored live.

        It begins from an earlier snapshot, and ends at the first action whose exit code or output differs
        or that cannot be repeated. Actions sent with an idempotency key, to run once, are skipped. The
        session continues in any case.

        Args:
            name: of the session; must be free; by default one is generated.
            since: the snapshot to begin from, or `begin` for a fresh session of the same image and options;
                by default the last snapshot before this one of which anything can be restored.
            rung: the parts to restore, `live` or `files`; by default the best that is possible.
            skip: entries of actions to leave out, such as `#12`.
            repeat: idempotency keys whose commands are repeated all the same.
            exit_codes: compare exit codes only, because the outputs differ by nature.
            timeout: the most seconds for each action.
            on_action: called with each action and its outcome.
            patience: another thread ends it with this, after the action that runs.

        Raises:
            InvalidArgument: an argument is not valid, or there is nothing to repeat.
            SnapshotError, EngineError, SessionError: no session could be made.
        """
        from holdfast.runtime.api import redo_snapshot
        from holdfast.runtime.api.session import Session
        from holdfast.runtime.task.redo_rules import RedoOptions

        options = RedoOptions(tuple(skip), tuple(repeat), exit_codes, timeout)
        return redo_snapshot.redo(
            self._context,
            self._row,
            name,
            since=since,
            rung=rung,
            options=options,
            handle=partial(Session, self._context),
            report=on_action,
            patience=patience,
        )

    def fits(self) -> Ladder:
        """Return the rungs that this machine offers for it, and the obstacles to the others. Changes
        nothing."""
        from holdfast.runtime.restore.compat import snapshot_ladder

        return snapshot_ladder.ladder(self._context, self._row)

    def fork(
        self,
        n: int = 1,
        name: str | None = None,
        *,
        rung: Name | None = None,
        network: str | None = None,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        eager: bool = False,
    ) -> list[Session]:
        """Make n sessions that continue from here: called name, or name-1, name-2, … Makes all of them or
        none.

        Large heaps do not take memory until a copy touches them, or is captured.

        Args:
            n: how many.
            name: must be free; by default they are generated.
            rung: as for `restore`, like `network`, `allow` and `deny`.
            network: see `rung`.
            allow: see `rung`.
            deny: see `rung`.
            eager: load all memory immediately, in the background.
        """
        from holdfast.runtime.api.session import Session
        from holdfast.runtime.restore import restore_service

        check_forks(n)
        rows = restore_service.restore(
            self._context, self._row, name, n, rung, network, allow, deny, on_touch=not eager
        )
        return [Session(self._context, row) for row in rows]

    def pack(self) -> Snapshot:
        """Pack its memory now, if that has not happened yet, so that `size` is final.

        Raises:
            StoreError: it cannot be packed, for example because the disk is full; it can be restored all the
                same.
        """
        from holdfast.runtime.storage import snapshot_storage

        self._row = snapshot_storage.settle(self._context, self._context.store.snapshot(self.id))
        return self

    def pin(self, *, pinned: bool = True) -> Snapshot:
        """Keep it until it is removed by hand; with `pinned=False`, leave it to policy and quota again."""
        self._row = self._context.store.update_snapshot(self.id, pinned=pinned)
        return self

    def remove(self) -> None:
        """Delete it.

        Raises:
            SnapshotInUse: a suspended session needs it.
        """
        from holdfast.runtime.storage import snapshot_storage

        snapshot_storage.remove_snapshot(self._context, self._row)
