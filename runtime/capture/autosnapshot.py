"""Automatic captures around commands, according to the session's policy.

No process watches sessions. The caller of a command checks before and after it, and the command waits for the
freeze only: the rest happens in the background. A capture that fails is reported once, and never fails the
command.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.base.text import plain
from holdfast.errors import HoldfastError, SessionBusy
from holdfast.runtime.capture import activity
from holdfast.runtime.journal import host_events
from holdfast.runtime.retention.risky_commands import risky
from holdfast.runtime.sessions import health
from holdfast.runtime.sessions.session_lock import turn

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.results import CellResult, ExecResult
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.policy import Policy
    from holdfast.runtime.store.rows import SessionRow, SnapshotKind

T = TypeVar("T")
TOLD = "capture_failed"


def around(line: SessionChannel, text: str, run: Callable[[], T], failure: Callable[[T], str | None]) -> T:
    """Run a command or cell, and capture the session before or after it if its policy says so.

    Args:
        line: the channel to the session.
        text: the command or code.
        run: runs it.
        failure: describes how a result failed, in a few words; None if it succeeded.
    """
    policy = line.policy()
    if not policy.captures:
        return run()
    before(line, text)
    result = run()
    what = failure(result) if policy.on_failure else None
    if what is not None:
        capture(line.context, line.row.id, policy, "failure", what)
    elif policy.every and _guarded(line, lambda: activity.count(line, policy.every or 0)):
        capture(line.context, line.row.id, policy, "every", f"{policy.every} commands")
    return result


def before(line: SessionChannel, text: str) -> None:
    """Capture the session if the next command is risky, or if it was idle for long."""
    policy = line.policy()
    if not policy.captures:
        return
    what = risky(text, policy.risky) if policy.before_risky else None
    if what is not None:
        capture(line.context, line.row.id, policy, "risky", what)
    elif policy.idle and _guarded(line, lambda: activity.idle(line, policy.idle or 0.0)):
        capture(line.context, line.row.id, policy, "idle", "idle for long")


def of_command(result: ExecResult) -> str | None:
    """Describe how a command failed, in a few words; None if it succeeded, or has not ended."""
    if result.timed_out:
        return "it took too long"
    if result.signal is not None:
        return f"signal {result.signal}"
    return f"exit {result.exit_code}" if result.exit_code else None


def of_cell(result: CellResult) -> str | None:
    """Describe how a cell failed; None if it succeeded."""
    return plain(result.error.ename, 40) if result.error else None


def capture(context: Context, session_id: str, policy: Policy, trigger: str, what: str) -> None:
    """Start a capture, and return when the session runs again; the rest continues in the background."""
    thawed = threading.Event()

    def work() -> None:
        try:
            take(context, session_id, policy, trigger, what, thawed.set)
        except HoldfastError as error:
            report_failure(context, session_id, error)
        finally:
            thawed.set()

    context.background.start(work)
    thawed.wait()


def take(
    context: Context,
    session_id: str,
    policy: Policy,
    trigger: str,
    what: str,
    thawed: Callable[[], None] = lambda: None,
) -> None:
    """Capture a session for its policy, and remove snapshots that the policy no longer keeps.

    Raises:
        HoldfastError: nothing was captured.
    """
    from holdfast.runtime.capture import snapshot_service
    from holdfast.runtime.retention import prune

    health.check(context, session_id)
    why: dict[str, Any] = {"trigger": trigger, "what": plain(what, 80)}
    with turn(context, context.session_row(session_id), "capture") as row:
        kind: SnapshotKind = "live" if policy.kind == "live" else "filesystem"
        snapshot_service.capture(context, row, None, kind, None, why, thawed)
        if row.details.capture_failed is not None:
            context.store.keep_details(session_id, capture_failed=None)
    prune.expire(context, context.session_row(session_id))


def report_failure(context: Context, session_id: str, error: HoldfastError) -> None:
    """Report that a capture failed, unless the previous one failed for the same reason."""
    if isinstance(error, SessionBusy):  # another caller is capturing it right now
        return
    try:
        row = context.session_row(session_id)
        if row.details.capture_failed == error.code:
            return
        context.progress(f"no automatic snapshot of session {row.name}: {error}")
        context.store.keep_details(session_id, capture_failed=error.code)
        host_events.note(context, session_id, "capture_failed", why=str(error), code=error.code)
    except HoldfastError:
        return


def _guarded(line: SessionChannel, ask: Callable[[], bool]) -> bool:
    """Return False if the check fails: a failed check is neither a reason to capture nor an error."""
    try:
        return ask()
    except HoldfastError:
        return False


def look(context: Context) -> list[str]:
    """Capture the sessions that were idle for as long as their policy says, and remove overdue snapshots.
    Returns the names of the captured sessions.

    A failure in one session is reported once and does not stop the others.
    """
    # Not around a command, which waits.
    from holdfast.runtime.retention import prune
    from holdfast.runtime.store import policy as policies

    captured: list[str] = []
    for session in health.observe_all(context):
        policy = policies.Policy.of(session.details)
        try:
            if session.state == "running" and policy.idle and _due(context, session, policy.idle):
                take(context, session.id, policy, "idle", "idle for long")
                captured.append(session.name)
            prune.expire(context, session)
        except HoldfastError as error:
            report_failure(context, session.id, error)
    return captured


def _due(context: Context, row: SessionRow, seconds: float) -> bool:
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel

    return activity.idle(SessionChannel(context, lambda: row), seconds)
