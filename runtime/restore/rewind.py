"""Takes a session back to a snapshot in place: name, id and address stay, its processes are the snapshot's.

Its present state is captured first, unless the caller discards it. Then it is paused, and the snapshot is
brought up next to it, in a container and a folder of its own. Only when that answers does it take the place
of the old one (`finish`). If anything fails before, the old one continues as if nothing had happened. Every
step of the switch can be repeated, even by another process: the operation's details say what to do.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Unpack

from holdfast.base.interrupts import held
from holdfast.engine import networks
from holdfast.errors import (
    EngineError,
    HoldfastError,
    InvalidArgument,
    SessionBusy,
    SnapshotDamaged,
    SnapshotNewer,
)
from holdfast.runtime.egress import attempt_log, network_changes
from holdfast.runtime.egress.close_network import Closing
from holdfast.runtime.history.lineage import family
from holdfast.runtime.journal import host_events
from holdfast.runtime.journal.mirror import mirror
from holdfast.runtime.lifecycle import provision
from holdfast.runtime.lifecycle.take_back import take_back_containers
from holdfast.runtime.operations.operation import carry_out, undoes
from holdfast.runtime.restore.restore_session import ArrivedSession, Restoring
from holdfast.runtime.sessions import health, session_identity, shared_folder
from holdfast.runtime.sessions.session_lock import turn
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.storage import snapshot_lock
from holdfast.runtime.store.lives import Lives
from holdfast.runtime.store.row_details import OperationDetails
from holdfast.runtime.store.rows import OperationKind
from holdfast.runtime.store.timelines import journal_of
from holdfast.snapshots import manifest as manifests

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.engine.container_state import ContainerState
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.row_details import OperationKeys
    from holdfast.runtime.store.rows import (
        OperationRow,
        OperationState,
        SessionRow,
        SnapshotKind,
        SnapshotRow,
    )

ACTIVITY = ("command_started", "cell_started", "job_started", "input")


@dataclass(frozen=True, slots=True)
class RewindOptions:
    """Options of a rewind: the label to keep the present under, if any; whether any lineage is allowed."""

    keep: str | None = None
    discard: bool = False
    force: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RewindOutcome:
    """The result of a rewind: the snapshot of the present, the abandoned work, and the differences."""

    session: SessionRow
    kept: SnapshotRow | None
    left_behind: int
    lost: int
    deviations: tuple[str, ...]


def rewind(
    context: Context, session: SessionRow, snapshot: SnapshotRow, options: RewindOptions
) -> RewindOutcome:
    """Let a session continue from a snapshot under its own name and address, whatever state it is in.

    Raises:
        InvalidArgument: the snapshot is of another lineage.
        SnapshotDamaged, RestoreFailed, CaptureFailed, LiveUnsupported: the session is unchanged.
    """
    if options.keep is not None and options.discard:
        raise InvalidArgument(
            "cannot rewind: the present is either kept under a label or discarded, not both"
        )
    if snapshot.state == "pending":
        raise SnapshotDamaged(f"cannot rewind session {session.name}: {snapshot.name} is not complete")
    with turn(context, session, "rewind", usable=False) as session:
        if session.state == "creating":
            raise SessionBusy(f"cannot rewind session {session.name}: it is being made")
        session_identity.refuse_while_moving(session, "rewind")
        if not options.force:
            family.check(session, snapshot, context.store.snapshots())
        with snapshot_lock.used(context, snapshot):
            return _Rewinding(context, session, snapshot, options).run()


class _Rewinding:
    """One rewind."""

    def __init__(
        self, context: Context, session: SessionRow, snapshot: SnapshotRow, options: RewindOptions
    ) -> None:
        self._context = context
        self._session = session
        self._snapshot = snapshot
        self._options = options
        state = context.engine.inspect(session.container_id) if session.container_id else None
        self._live = state if state is not None and state.running and session.state == "running" else None
        if self._live is not None and not options.discard:
            health.check_awake(context, session, self._live)
        self._deviations: list[str] = []
        self._known = OperationDetails.of(snapshot=snapshot.id, old=session.container_id)

    def run(self) -> RewindOutcome:
        """Rewind, or change nothing."""
        context, session = self._context, self._session
        kept = self._keep()
        with carry_out(
            context, OperationKind.REWIND, session_id=session.id, details=self._known
        ) as operation:
            if self._live is not None:
                attempt_log.glance(context, session)
            place = self._place(operation, self._addresses())
            restoring = Restoring(context, self._snapshot, place)
            if self._live is not None:
                self._hold(self._live)
            lost = self._since(kept)
            left = self._count(self._snapshot)
            row = replace(
                session,
                generation=max(session.generation, restoring.manifest.generation) + 1,
                options=network_changes.carried(session.options, restoring.manifest.options),
            )
            container = self._bring_up(restoring, operation, row)
            columns = {
                "state": "running",
                "container_id": container,
                "parent_snapshot_id": self._snapshot.id,
                "image": restoring.manifest.image,
                "generation": row.generation,
                "options": row.options,
            }
            with held():
                self._know(operation, proven=container, columns=columns)
                finish(context, operation.id)
        self._note_rewind(kept, left, lost)
        now = context.store.session(session.id)
        return RewindOutcome(now, kept, left, lost, tuple(self._deviations))

    def _keep(self) -> SnapshotRow | None:
        """Capture the present, unless it is to be discarded or there is none: for a dead session, its
        files."""
        from holdfast.runtime.capture import snapshot_service

        if self._options.discard or (
            self._live is None and health.ended(self._context, self._session) is None
        ):
            return None
        kind: SnapshotKind = "live" if self._live is not None else "filesystem"
        why = f"before going back to {self._snapshot.name}"
        auto = None if self._options.keep else {"trigger": "rewind", "what": self._snapshot.name}
        try:
            return snapshot_service.capture(
                self._context, self._session, self._options.keep, kind, self._options.reason or why, auto
            )
        except HoldfastError as error:
            error.hint = f"`--discard` goes back without keeping what the session holds now; {error.hint}"
            raise

    def _addresses(self) -> tuple[str, ...]:
        """Return the addresses that the session has, or had when it was last captured."""
        if self._live is not None:
            return self._live.addresses
        return last_addresses(self._context, self._session)

    def _place(self, operation: OperationRow, addresses: tuple[str, ...]) -> provision.TemporaryPlace:
        place = provision.TemporaryPlace(f".{operation.id}", addresses)
        self._know(operation, aside=place.aside, addresses=list(addresses))
        return place

    def _know(self, operation: OperationRow, **facts: Unpack[OperationKeys]) -> None:
        """Record the facts needed to finish or undo the rewind, even in another process."""
        self._known = self._known.plus(**facts)
        self._context.store.operations.update(operation.id, details=self._known)

    def _hold(self, live: ContainerState) -> None:
        """Pause the session: from here on it does no work that could be lost, and its address is free."""
        engine = self._context.engine
        with held():
            engine.pause(live.id)
            networks.leave(engine, live.id)

    def _bring_up(self, restoring: Restoring, operation: OperationRow, row: SessionRow) -> str:
        try:
            (arrived,) = restoring.containers([row], operation)
        except EngineError as error:
            why = networks.why_another(error) if self._known.addresses else None
            if why is None:
                raise
            arrived = self._elsewhere(operation, row, why)
        arrived.keep(self._context.store)
        arrived.note(self._context)
        arrived.report(self._context)
        return arrived.container

    def _elsewhere(self, operation: OperationRow, row: SessionRow, why: str) -> ArrivedSession:
        """Bring the session up with a new address."""
        engine = self._context.engine
        for container in engine.containers(holdfast_operation=operation.id):
            engine.kill_remove(container)
        wanted = ", ".join(self._known.addresses)
        self._deviations.append(f"its address changed: {wanted} {why}")
        elsewhere = provision.TemporaryPlace(self._known.aside)
        (arrived,) = Restoring(self._context, self._snapshot, elsewhere).containers([row], operation)
        return arrived

    def _count(self, since: SnapshotRow) -> int:
        """Return the amount of work in the session since its own snapshot; 0 for a different session's."""
        context = self._context
        mirror(context.store, context.home, self._session.id)
        position = since.details.moment.journal_seq
        if position is None:
            return 0
        mine = journal_of(since) in (self._session.id, *self._ancestors())
        entries = context.store.entries.of([self._session.id])
        return sum(1 for row in entries if mine and row.seq > position and row.kind in ACTIVITY)

    def _ancestors(self) -> list[str]:
        from holdfast.runtime.store.timelines import line_of

        branches = self._context.store.entries.branches()
        return [part.session_id for part in line_of(self._session.id, branches)]

    def _since(self, kept: SnapshotRow | None) -> int:
        """Return the work between the capture of the present and the pause."""
        return 0 if kept is None else self._count(kept)

    def _note_rewind(self, kept: SnapshotRow | None, left: int, lost: int) -> None:
        host_events.note(
            self._context,
            self._session.id,
            "rewound",
            snapshot=self._snapshot.id,
            label=self._snapshot.label,
            left_behind=left,
            kept=kept.id if kept else None,
            lost=lost or None,
            reason=self._options.reason or self._context.reason,
            deviations=self._deviations or None,
        )


def finish(context: Context, operation_id: str) -> bool:
    """Let the new container take the old one's place if it is known to answer; else return False.

    The folder comes first and the row with it, so that clients that lose the old connection find the new
    one; then the old container ends.
    """
    operation = next((row for row in context.store.operations.open() if row.id == operation_id), None)
    session = None if operation is None else context.store.find_session(operation.session_id)
    if operation is None or session is None or not _may_finish(context, operation, session):
        return False
    store, engine, details = context.store, context.engine, operation.details
    run, aside, left = _folders(context, operation)
    if session.container_id != details.proven:
        snapshot = store.snapshot(details.snapshot)
        mirror(store, context.home, session.id)
        if aside.exists():
            if run.exists():
                run.rename(left)
            aside.rename(run)
        if snapshot.details.task is not None:
            # What was recorded later is in the snapshot of the present, and in the journal.
            store.keep_details(session.id, task=snapshot.details.task)
        Lives(store.database).begin(session, snapshot, details.columns)
    if details.old:
        engine.kill_remove(details.old)
    shared_folder.remove(engine, context.home, left.name)
    with suppress(EngineError):  # its name only serves people
        engine.rename(details.proven or "", provision.container_name(session.id))
    store.operations.complete(operation.id)
    return True


@undoes(OperationKind.REWIND)
def undo(context: Context, operation: OperationRow) -> OperationState | None:
    """Finish a rewind whose new container is known to answer; undo any other."""
    if finish(context, operation.id):
        return "done"
    _take_back(context, operation)
    return take_back_containers(context, operation, cut=True)


def _take_back(context: Context, operation: OperationRow) -> None:
    """Give the old container its name, folder and addresses back; the caller removes the new one."""
    session, engine = context.store.find_session(operation.session_id), context.engine
    if session is None or not operation.details.aside:
        return
    for container in engine.containers(holdfast_operation=operation.id):
        engine.kill_remove(container)
    run, aside, left = _folders(context, operation)
    if left.exists():
        shared_folder.remove(engine, context.home, run.name)
        left.rename(run)
    shared_folder.remove(engine, context.home, aside.name)
    state = engine.inspect(operation.details.old) if operation.details.old else None
    if state is not None and state.running and operation.details.addresses:
        networks.join(engine, state.id, operation.details.addresses)
        options = SessionOptions.parse(**session.options)
        network = Closing(engine, context.home, context.progress)
        network.renew(options, state.id)
        network.say_addresses(state.id, but=operation.details.addresses)


def last_addresses(context: Context, session: SessionRow) -> tuple[str, ...]:
    """Return the addresses a session had when it was last captured; none if that is not known."""
    for snapshot in reversed(context.store.snapshots(session.id)):
        with suppress(SnapshotDamaged, SnapshotNewer):
            manifest = manifests.read(context.home.snapshots / snapshot.id)
            if manifest.processes is not None:
                return tuple(manifest.processes.addresses)
    return ()


def _may_finish(context: Context, operation: OperationRow, session: SessionRow) -> bool:
    proven = operation.details.proven
    if proven is None:
        return False
    if session.container_id == proven:
        return True
    state = context.engine.inspect(proven)
    return state is not None and state.running


def _folders(context: Context, operation: OperationRow) -> tuple[Path, Path, Path]:
    """Return the folders of the session as clients find it, of the new one, and of the old one put aside."""
    run = context.home.run / (operation.session_id or "")
    aside = run.with_name(run.name + operation.details.aside)
    return run, aside, aside.with_name(aside.name + ".old")
