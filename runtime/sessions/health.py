"""The health of a session: its row compared with the state of its container.

A container can end or be removed behind our back; the session is found dead at the next check.
"""

from __future__ import annotations

from contextlib import suppress

from holdfast.errors import (
    EngineError,
    HoldfastError,
    SessionAsleep,
    SessionDead,
    SessionError,
    SessionMoving,
    SessionPaused,
    SessionUnhealthy,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.engine.container_state import ContainerState
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import OperationKind, SessionRow

GLANCE = 1.0
"""Seconds in which a supervisor that has been silent must answer; it takes milliseconds."""
UNREACHABLE = 30.0
"""Seconds without an answer after which it counts as unreachable; a capture takes less."""


def check(context: Context, session_id: str) -> None:
    """Check that the session's container runs.

    Raises:
        SessionError, SessionDead, SessionNotFound: the reason the session cannot be used, and advice.
        SessionPaused: another program has paused it, or frozen its control group.
    """
    row = context.session_row(session_id)
    if row.state == "running" and row.container_id is not None:
        state = context.engine.inspect(row.container_id)
        from holdfast.snapshots.checkpointer.ground.tree import waits_unconfined

        if state is not None and state.running and not waits_unconfined(state.pid):
            _check_awake(context, row, state)
            check_usable(context, row)
            return
        why = why_ended(state)
        row, by = _judged(context, row, why)
        if row.state == "dead" or by == "remove":
            raise SessionDead(
                f"cannot use session {row.name}: its container {why}", hint=_way_out(context, row)
            )
        if by is not None:
            _check_stays(row)
            raise SessionError(
                f"cannot use session {row.name}: its processes have just been ended by `{by}`",
                hint="try again in a moment",
            )
    check_usable(context, row)


def why_cut(context: Context, row: SessionRow) -> str:
    """Return why a session has ended a connection, for the person who had it."""
    try:
        check(context, row.id)
    except HoldfastError as error:
        return f"the connection to session {row.name} has ended: {error}"
    return f"the connection to session {row.name} has ended, as with every snapshot; connect again"


def check_usable(context: Context, row: SessionRow) -> None:
    """Check that the session's row says that it runs and answers.

    Raises:
        SessionError, SessionDead, SessionNotFound: as for `check`.
    """
    if row.state == "running":
        if row.details.is_of_older(row.container_id):
            raise SessionUnhealthy(
                f"cannot use session {row.name}: an older version of Holdfast made it, and this "
                "version cannot reach it",
                hint="its present state can no longer be captured; " + _way_out(context, row, " --discard"),
            )
        if row.details.marked_unhealthy:
            _check_answers(context, row)
        return
    if row.state == "suspended":
        from holdfast.runtime.store import lifetime

        _check_stays(row)
        if why := lifetime.asleep(row):
            raise SessionAsleep(
                f"cannot use session {row.name}: it sleeps",
                hint=f"`holdfast exec {row.name}` wakes it, as does any other use; `holdfast resume "
                f"{row.name}` does nothing else",
                why=why,
            )
        raise SessionError(
            f"cannot use session {row.name}: it is suspended", hint=f"`holdfast resume {row.name}`"
        )
    if row.state == "creating":
        raise SessionError(f"cannot use session {row.name}: it is being made", hint="try again in a moment")
    why = why_ended(context.engine.inspect(row.container_id or ""))
    raise SessionDead(f"cannot use session {row.name}: its container {why}", hint=_way_out(context, row))


def _check_stays(row: SessionRow) -> None:
    moving = row.details.moving
    if moving is not None and moving.attempt is None:
        raise SessionMoving(
            f"cannot use session {row.name}: it is being moved to {moving.to}", hint="try again in a moment"
        )


def ended(context: Context, row: SessionRow) -> ContainerState | None:
    """Return the container of a dead session if it is still there, with the session's files; None otherwise.

    A session that has ended unnoticed is found dead by this.

    Raises:
        SessionError: its processes have just been ended by an operation.
    """
    if row.state == "running":
        with suppress(SessionDead):
            check(context, row.id)
        row = context.store.session(row.id)
    if row.state != "dead" or row.container_id is None:
        return None
    return context.engine.inspect(row.container_id)


def why_ended(state: ContainerState | None) -> str:
    """Say what became of a container, after \"its container\"."""
    if state is None:
        return "was removed"
    if state.running:
        return "was stopped and started by hand: nothing runs in it until its network is closed"
    return "ran out of memory" if state.oom_killed else f"ended (exit code {state.exit_code})"


def is_held(context: Context, session_id: str) -> bool:
    """Return whether an operation, such as a capture, keeps the session from answering."""
    return _under_way(context, session_id) is not None


def check_awake(context: Context, row: SessionRow, state: ContainerState) -> None:
    """Check that a container in which no operation has stopped anything is neither paused nor frozen.

    Raises:
        SessionPaused: it is.
    """
    from holdfast.base import node_lease
    from holdfast.engine import frozen_groups

    thaw = "" if state.paused else frozen_groups.thaw_command(state.id, state.pid)
    if (state.paused or thaw) and (why := node_lease.why_frozen(context.home, state.id)):
        raise SessionPaused(
            f"cannot use session {row.name}: frozen: {why}",
            hint="it continues by itself when this machine reaches the database again, or on another machine "
            "from its last durable copy; `holdfast cluster nodes` shows them",
            state="frozen",
        )
    if state.paused:
        raise SessionPaused(
            f"cannot use session {row.name}: its container was paused, not by Holdfast",
            hint=(
                f"`docker unpause {state.id[:12]}` lets it continue, including all requests sent "
                "in the meantime"
            ),
        )
    if thaw:
        raise SessionPaused(
            f"cannot use session {row.name}: its control group was frozen, not by Holdfast",
            hint=f"`{thaw}` as root lets it continue, including all requests sent in the meantime",
            state="frozen",
        )


def check_silent(context: Context, session_id: str, seconds: float) -> None:
    """Find out why a supervisor does not answer, and has not for that many seconds.

    Raises:
        SessionError, SessionDead, SessionNotFound: as for `check`.
        SessionUnhealthy: nothing explains it, and it has lasted too long.
    """
    said = ""
    try:
        check(context, session_id)
    except EngineError as error:  # which the session itself does not need
        said = f", and {error}"
    row = context.session_row(session_id)
    if seconds >= UNREACHABLE and _at_work(context, row) is None:
        raise SessionUnhealthy(
            f"cannot use session {row.name}: its supervisor does not answer{said}",
            hint=(
                "its processes are stopped (SIGSTOP, a frozen control group), or are starved of "
                "the machine's resources; {_way_out(context, row)}"
            ),
        )


def observe_all(context: Context) -> list[SessionRow]:
    """Return the rows of all sessions as they are now, oldest first."""
    rows = context.session_rows()
    if any(row.state == "running" for row in rows):
        running = context.running_containers()
        rows = [observed(context, row, running) for row in rows]
    return rows


def observed(context: Context, row: SessionRow, running: set[str]) -> SessionRow:
    """Return the present row; `running` are containers that are known to run and need no inspection.

    A session that another program has paused or frozen has a mark for that, which no store keeps.
    """
    from holdfast.base import node_lease
    from holdfast.engine import frozen_groups

    if row.state != "running":
        return row
    container = str(row.container_id)
    if container in running and not (
        frozen_groups.thaw_command(container) or node_lease.why_frozen(context.home, container)
    ):
        return row
    # It may have been removed, suspended or restored since the list was read.
    stopped = ""
    try:
        check(context, row.id)
    except SessionPaused as error:
        stopped = error.state
    except SessionError:
        rows = context.store.sessions(removed=True)
        return next(found for found in rows if found.id == row.id)
    if stopped == row.stopped:
        return row
    from dataclasses import replace

    return replace(row, stopped=stopped)


def _check_awake(context: Context, row: SessionRow, state: ContainerState) -> None:
    """Check that no other program has stopped a container, in which operations at times stop everything.

    Raises:
        SessionPaused: one has.
    """
    try:
        check_awake(context, row, state)
    except SessionPaused:
        if is_held(context, row.id):
            return
        # The operation that had stopped it may have ended between these two looks.
        if (now := context.engine.inspect(state.id)) is not None:
            check_awake(context, row, now)


def _check_answers(context: Context, row: SessionRow) -> None:
    from holdfast.runtime.sessions import after_capture

    if after_capture.trouble(row) and not after_capture.recovered(context, row):
        raise SessionUnhealthy(
            f"cannot use session {row.name}: {after_capture.trouble(row)}", hint=_way_out(context, row)
        )


def _judged(context: Context, row: SessionRow, why: str) -> tuple[SessionRow, OperationKind | None]:
    """Return the row of a session whose container has ended: dead, or with the operation that ended it."""
    from holdfast.runtime.journal import host_events

    # A resume may have given it another container in the meantime. An operation that is ending this one must
    # not complete between these looks: a suspended session would be recorded as dead.
    with context.store.together():
        now = context.store.session(row.id)
        if now.state != "running" or now.container_id != row.container_id:
            return now, None
        if (by := _ending(context, row)) is not None:
            return now, by
        dead = context.store.update_session(row.id, state="dead")
    host_events.note(context, row.id, "died", actor="system", why=f"its container {why}")
    return dead, None


def _ending(context: Context, row: SessionRow) -> OperationKind | None:
    """Return the operation of a living process that ends the container of a session, if there is one."""
    from holdfast.runtime.store.rows import OperationKind

    return _under_way(
        context, row.id, OperationKind.SUSPEND, OperationKind.REWIND, OperationKind.MOVE, OperationKind.REMOVE
    )


def _at_work(context: Context, row: SessionRow) -> OperationKind | None:
    """Return the operation of a living process that possibly stopped the session, if there is one."""
    from holdfast.runtime.store.rows import OperationKind

    return _ending(context, row) or _under_way(context, row.id, OperationKind.SNAPSHOT)


def _under_way(context: Context, session_id: str, *kinds: OperationKind) -> OperationKind | None:
    """Return the operation on a session that a living process carries out, of any kind if none is named."""
    from holdfast.runtime.operations.operation import is_orphan

    under_way = (each for each in context.store.operations.open() if each.session_id == session_id)
    wanted = (each.kind for each in under_way if not is_orphan(each) and (not kinds or each.kind in kinds))
    return next(wanted, None)


def _way_out(context: Context, row: SessionRow, options: str = "") -> str:
    again = ""
    if row.state == "dead" and context.engine.inspect(row.container_id or "") is not None:
        again = f"`holdfast resume {row.name}` starts it again on its files, with new processes"
    ready = [taken for taken in context.store.snapshots() if taken.state == "ready"]
    mine = [taken for taken in ready if taken.session_id == row.id]
    back = mine or [taken for taken in ready if taken.id == row.parent_snapshot_id]
    if back:
        rewind = f"`holdfast rewind {row.name} {back[-1].name}{options}` goes back to its last snapshot"
        return f"{again}; {rewind}" if again else rewind
    return again or f"`holdfast rm {row.name}` (it was never captured, so it cannot be restored)"
