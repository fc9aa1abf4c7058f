"""The resumption of a session in place: a suspended one from its snapshot, a dead one on its files.

Whatever ended the container of a dead session (the machine, its memory, a person with `docker stop`), the
engine keeps its files until it is removed: they are as they were, and its processes are new.
"""

from __future__ import annotations

import signal
import time
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.base import ids, polling
from holdfast.engine import networks
from holdfast.errors import (
    EngineError,
    HoldfastError,
    RestoreFailed,
    SessionDead,
    SessionError,
    SnapshotDamaged,
    SnapshotNewer,
)
from holdfast.runtime.egress.close_network import Closing
from holdfast.runtime.guest import layout
from holdfast.runtime.journal import host_events
from holdfast.runtime.journal.mirror import mirror
from holdfast.runtime.lifecycle import provision
from holdfast.runtime.lifecycle.take_back import take_back_containers
from holdfast.runtime.operations.operation import carry_out, undoes
from holdfast.runtime.restore.restore_session import Restoring
from holdfast.runtime.sessions import (
    health,
    identity_messages,
    name_files,
    session_identity,
    shared_folder,
)
from holdfast.runtime.sessions.session_lock import turn
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.storage import snapshot_lock
from holdfast.runtime.store import lifetime, quotas
from holdfast.runtime.store.rows import OperationKind
from holdfast.snapshots import manifest

if TYPE_CHECKING:
    from holdfast.engine.container_state import ContainerState
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import OperationRow, SessionRow
    from holdfast.snapshots.manifest import Manifest

END_SECONDS = 10.0
ASK_SECONDS = 0.5
"""Between two requests to a first process that awaits restored processes, which will not come."""

undoes(OperationKind.RESUME)(take_back_containers)


def resume(context: Context, session: SessionRow, *, here: bool = False) -> SessionRow:
    """Resume a suspended session under its name and id, or start a dead one again on its files.

    `here`: even if a move was cut short that possibly brought it to another machine.
    """
    with turn(context, session, "resume", usable=False) as session:
        if here:
            if session.details.moving is not None:  # if it runs there as well, that will be noticed
                session_identity.begin_tenure(context.store, session.id, ids.new_id())
            session_identity.clear_mark(context, session)
        else:
            session_identity.refuse_while_moving(session, "resume")
        if session.state in ("running", "dead") and health.ended(context, session) is not None:
            return _start_again(context, session)
        if session.state == "dead":
            health.check_usable(context, session)
        if session.state != "suspended" or session.parent_snapshot_id is None:
            raise SessionError(f"cannot resume session {session.name}: it is not suspended")
        snapshot = context.store.snapshot(session.parent_snapshot_id)
        with (
            snapshot_lock.used(context, snapshot),
            _resuming(context, session) as operation,
        ):
            restoring = Restoring(context, snapshot)
            try:
                (resumed,) = restoring.bring_up([_next_generation(session, restoring)], operation)
            except RestoreFailed as error:
                error.hint = (
                    f"{error.hint}; the session stays suspended; "
                    f"`holdfast restore {snapshot.name} --as files` makes a session from its files"
                ).removeprefix("; ")
                raise
    with host_events.at_once(context):
        resumed.note(context)
        host_events.note(context, session.id, "resumed")
    resumed.report(context)
    kept = lifetime.DETAIL in session.details or "sandbox" in session.details
    if not kept and quotas.read(context.home.place) == quotas.Quotas():
        return resumed.row
    now = time.time()
    lifetime.change(context.store, session.id, lambda kept: kept.resumed(now))
    return context.store.session(session.id)


def _resuming(context: Context, session: SessionRow) -> AbstractContextManager[OperationRow]:
    """Run the block as the operation that lets a session run again, if the quota of the home allows that."""
    user = str(session.details.get("by") or "")

    def plan() -> None:
        context.store.check_running(user)

    return carry_out(context, OperationKind.RESUME, session_id=session.id, plan=plan)


def _next_generation(session: SessionRow, restoring: Restoring) -> SessionRow:
    return replace(session, generation=max(session.generation, restoring.manifest.generation) + 1)


def _start_again(context: Context, session: SessionRow) -> SessionRow:
    """Start a dead session, whose lock the caller holds, and return its row.

    Raises:
        SessionDead: its container was removed.
        SessionError, EngineError: it cannot be started; it stays dead, and its container as it was.
    """
    engine = context.engine
    state = health.ended(context, session)
    if state is None:
        health.check_usable(context, session)
        raise SessionDead(f"cannot resume session {session.name}: its container is gone")
    options = SessionOptions.parse(**session.options)
    network = Closing(engine, context.home, context.progress)
    with _resuming(context, session) as operation:
        why = "it was started by hand" if state.running else f"its container {health.why_ended(state)}"
        if state.running:
            engine.signal(state.id, signal.SIGKILL)
            polling.until(lambda: _is_over(context, state.id), END_SECONDS, 0.01)
        try:
            mirror(context.store, context.home, session.id)
            folder = provision.prepare_run_dir(context, session)
            identity_messages.say_who(folder, session, _origin(context, session), again=why)
            # A session that was rewound has a folder that was made beside its old one, and renamed.
            mounted = state.sources[str(layout.RUN_DIR)]
            with network.ahead(options), shared_folder.also_known(context.home, session.id, mounted):
                _start_container(context, state.id)
            closed = network.close(options, state.id)
            _name_again(context, session, state)
            provision.await_guest(engine, state.id, folder, _Nudge(context, state.id))
            network.check(closed)
        except BaseException:
            with suppress(EngineError):
                engine.signal(state.id, signal.SIGKILL)
            raise
        context.store.keep_details(session.id, unhealthy=None)
        context.store.operations.complete(operation.id, sessions={session.id: {"state": "running"}})
    with host_events.at_once(context):
        host_events.note(context, session.id, "resumed", why=why)
    context.progress(f"session {session.name} was started again on its files: {why}; its processes are new")
    return context.store.session(session.id)


def _name_again(context: Context, session: SessionRow, before: ContainerState) -> None:
    """Name the host as the session: the engine starts a container from the pool under its first name."""
    if before.hostname == session.name:
        return
    from holdfast.runtime.lifecycle import waiting_session  # few sessions have waited

    started = context.engine.inspect(before.id)
    if started is not None and started.running:
        waiting_session.give_host_name(context, started.id, started.pid, session.name)
        name_files.rename(context.home.run_dir(session.id), before.hostname, session.name)


def _start_container(context: Context, container: str) -> None:
    """Start the container; with a new address if its former one is in use."""
    engine = context.engine
    try:
        provision.start(engine, container)
    except EngineError as error:
        why = networks.why_another(error)
        if why is None:
            raise
        networks.leave(engine, container)
        networks.join(engine, container, ())
        provision.start(engine, container)
        context.progress(f"the address of the session {why}, so it has a different one")


def _is_over(context: Context, container: str) -> bool:
    state = context.engine.inspect(container)
    return state is None or not state.running


class _Nudge:
    """Tells a first process that awaits restored processes to start a supervisor itself (`init.c`)."""

    def __init__(self, context: Context, container: str) -> None:
        self._context = context
        self._container = container
        self._next = time.monotonic() + ASK_SECONDS

    def __call__(self) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + ASK_SECONDS
            with suppress(HoldfastError):  # a container that has ended is noticed elsewhere
                self._context.engine.signal(self._container, signal.SIGUSR1)


def _origin(context: Context, session: SessionRow) -> Manifest | None:
    """Return the snapshot that the session was made from, if it is still there."""
    if session.parent_snapshot_id is None:
        return None
    with suppress(SnapshotDamaged, SnapshotNewer):
        return manifest.read(context.home.snapshots / session.parent_snapshot_id)
    return None
