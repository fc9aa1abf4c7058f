"""Sessions that wait in the pool: made ahead, handed over to a caller, or given up.

One is made as any other session, with an id of its own, and ends where that would run its first command. The
process that deletes its row in the store has it: in the transaction that makes it a session, or to remove it.
If that process dies, the operation leads to everything that it leaves.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.base import ids
from holdfast.base.version import VERSION
from holdfast.errors import HoldfastError, SessionError
from holdfast.images import build
from holdfast.runtime.egress import close_network, home_network, host_network
from holdfast.runtime.egress.close_network import Closing
from holdfast.runtime.journal import host_events
from holdfast.runtime.lifecycle import bring_up, orphan_containers, pool_plan, provision
from holdfast.runtime.operations.operation import carry_out, is_orphan, undoes
from holdfast.runtime.sessions import identity_messages, name_files, shared_folder
from holdfast.runtime.store import owner
from holdfast.runtime.store.rows import OperationKind, SessionRow
from holdfast.runtime.store.waiting import WaitingRow
from holdfast.snapshots.link import CheckpointerFailed

if TYPE_CHECKING:
    from holdfast.runtime.lifecycle.chosen_image import ChosenImage
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.row_details import SessionDetails
    from holdfast.runtime.store.rows import OperationRow, OperationState


class _TakenMeanwhile(Exception):
    """A different process has it."""


class _Unusable(Exception):
    """The session no longer answers."""


def digest_of(context: Context, image: ChosenImage) -> str:
    """Return the digest of a session on this image, as it would be made now (`pool_plan.digest`)."""
    machine = host_network.look()
    # Each container adds a link to the host, with such an address.
    around = [str(one) for one in (*machine.addresses, *machine.networks) if not one.is_link_local]
    return pool_plan.digest(
        image.options.model_dump(mode="json"),
        image.name,
        context.engine.images.id(image.name),
        VERSION,
        build.toolbox(),
        around,
        close_network.resolver_file(context.home),
        home_network.read(context.home),
    )


def make(context: Context, image: ChosenImage, digest: str, *, kernel: bool) -> None:
    """Make a waiting session.

    Raises:
        HoldfastError: as for any new session; nothing is left of it.
    """
    options = image.options
    kernel = kernel or options.kernel is not None or options.python is not None
    session_id = ids.new_id()
    row = SessionRow(
        session_id,
        session_id,
        "creating",
        image.name,
        datetime.now(UTC),
        options=options.model_dump(mode="json"),
    )
    network = Closing(context.engine, context.home, context.progress)
    with carry_out(context, OperationKind.POOL, session_id=session_id) as operation:
        waits = "kernel" if kernel else "shell"
        container = bring_up.bring_up(context, row, operation.id, image, network, waits)
        state = context.engine.inspect(container)
        began = owner.start_of(state.pid) if state is not None and state.running else None
        made = WaitingRow(
            session_id,
            digest,
            image.name,
            container,
            state.pid if state else 0,
            began or "",
            kernel,
            row.options,
        )
        with context.store.together():
            context.store.waiting.add(made)
            context.store.operations.complete(operation.id)


def hand_over(
    context: Context, name: str | None, image: ChosenImage, details: SessionDetails
) -> tuple[SessionRow | None, str]:
    """Turn a waiting session into the session of a caller; return None, and why, if that is not possible.

    Raises:
        SessionExists: the name is taken.
    """
    if why := pool_plan.unsuited(image.options):
        return None, why
    rows = context.store.waiting.all()
    digest = digest_of(context, image) if rows else ""
    why = "no session with these options waits" if rows else "the pool is empty"
    now = datetime.now(UTC)
    for waiting in rows:
        if waiting.digest != digest or now - waiting.made_at > pool_plan.OLDEST:
            continue
        try:
            return _handed_over(context, waiting, name, details.plus(pool={"used": True})), ""
        except _TakenMeanwhile:
            why = "other callers took all waiting sessions"
        except _Unusable as error:
            why = str(error)
    return None, why


def _handed_over(
    context: Context, waiting: WaitingRow, name: str | None, details: SessionDetails
) -> SessionRow:
    store = context.store

    def plan() -> None:
        if not store.waiting.claim(waiting.id):
            raise _TakenMeanwhile
        provision.register(
            store, name, waiting.image, waiting.options, session_id=waiting.id, details=details
        )

    with carry_out(context, OperationKind.NEW, session_id=waiting.id, plan=plan) as operation:
        row = store.session(waiting.id)
        context.doing(f"taking {row.name} from the pool")
        try:
            _begin(context, waiting, row)
        except (HoldfastError, CheckpointerFailed, OSError) as error:
            raise _Unusable(f"the waiting session does not answer ({error})") from error
        made = {"state": "running", "container_id": waiting.container_id}
        store.operations.complete(operation.id, sessions={row.id: made})
    with host_events.at_once(context):
        host_events.note(context, row.id, "created", name=row.name, image=row.image)
    return context.session_row(row.id)


def _begin(context: Context, waiting: WaitingRow, row: SessionRow) -> None:
    folder = context.home.run_dir(row.id)
    if waiting.init_start and not owner.alive(waiting.init_pid, waiting.init_start):
        raise SessionError("it has ended")
    give_host_name(context, waiting.container_id, waiting.init_pid, row.name)
    name_files.rename(folder, waiting.id, row.name)
    identity_messages.begin(folder, replace(row, container_id=waiting.container_id))


def give_host_name(context: Context, container_id: str, init_pid: int, name: str) -> None:
    """Name the host of a container that runs; the engine can do that only for a new one.

    Raises:
        HoldfastError, CheckpointerFailed: it cannot be done.
    """
    if _given_here(init_pid, name):
        return
    from holdfast.snapshots import service

    asked = {"container": container_id, "init_pid": init_pid, "name": name}
    with service.ask(context.engine, context.home, context.progress, "host_name", **asked) as link:
        link.until("done")


def _given_here(init_pid: int, name: str) -> bool:
    """Name the host from a thread of this process, where that is allowed: it is quicker."""
    from holdfast.snapshots.checkpointer.container import host_name

    given: list[bool] = []

    def work() -> None:
        try:
            host_name.give(init_pid, name)
            given.append(True)
        except OSError:  # this user is not allowed to, or does not see the process
            pass

    thread = threading.Thread(target=work, name="host-name")  # it cannot leave the namespace again
    thread.start()
    thread.join()
    return bool(given)


def give_up(context: Context, waiting: WaitingRow) -> None:
    """Remove a waiting session, unless a different process has it by now.

    Raises:
        HoldfastError: it cannot be removed yet; the next process tries again.
    """

    def plan() -> None:
        if not context.store.waiting.claim(waiting.id):
            raise _TakenMeanwhile

    try:
        with carry_out(context, OperationKind.POOL, session_id=waiting.id, plan=plan):
            _remove(context, waiting.id)
    except _TakenMeanwhile:
        return


def _remove(context: Context, session_id: str) -> None:
    asked = {"holdfast_session": session_id, "holdfast_home": context.home.digest}
    for container_id in context.engine.containers(**asked):
        context.engine.kill_remove(container_id)
    shared_folder.remove(context.engine, context.home, session_id)


@undoes(OperationKind.POOL)
def take_back_waiting(context: Context, operation: OperationRow) -> OperationState | None:
    """Remove a session that was being made, or given up."""
    session_id = operation.session_id
    if session_id is None:
        return "failed"
    if is_orphan(operation):
        image = build.toolbox()  # of a container that is removed at once; this one is always there
        row = SessionRow(session_id, session_id, "creating", image, operation.started_at)
        if not orphan_containers.clear_unrecorded(context, operation, row):
            return None
    _remove(context, session_id)
    return "failed"
