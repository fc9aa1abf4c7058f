"""The state of a session after its capture was cut short: it answers again, or is marked as unreachable.

A capture that is killed half-way lets the session's processes continue, almost always unharmed. Code that
was injected into them at that instant can have broken one. If it was the supervisor, the session cannot be
reached any more; that is detected here and recorded with the session, so that later callers learn why.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.base import run_dir
from holdfast.errors import GuestError, HoldfastError, StoreError
from holdfast.runtime.guest import layout
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.sessions import identity_messages
from holdfast.snapshots import service
from holdfast.snapshots.link import CheckpointerFailed

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow

REPLY_SECONDS = 5.0
"""The longest time a supervisor can take to answer once nothing holds it any more. It takes milliseconds."""
GLANCE = 1.0
"""The same for one that did not answer before."""
POLL_SECONDS = 0.01

_PAUSED = re.compile(re.escape(layout.paused_name("")) + r"([0-9a-f]{32})")
# A session can put any number of files there.
_LOOKED_AT = 1000


def look(context: Context, row: SessionRow, *, cut: bool = False) -> None:
    """Check whether a running session answers after its capture failed, and record if it does not.

    With `cut`, the checkpointer had begun to capture its processes, and possibly died doing so.
    """
    if cut:
        _mend(context, row)
    folder = context.home.run_dir(row.id)
    for token in _pauses(folder):
        with suppress(StoreError):
            identity_messages.wake(folder, row, token, "aborted")
    if answers(folder, REPLY_SECONDS):
        return
    from holdfast.runtime.journal import host_events

    why = "a capture of it was cut short, and its supervisor has not answered since"
    context.store.keep_details(row.id, unhealthy={"container": row.container_id, "why": why})
    host_events.note(context, row.id, "unhealthy", actor="system", why=why)


def trouble(row: SessionRow) -> str:
    """Return why a session cannot be reached; empty if it can, or if an earlier container had failed."""
    return row.details.trouble(row.container_id)


def recovered(context: Context, row: SessionRow) -> bool:
    """Check whether a silent session answers again, and record that."""
    if not answers(context.home.run_dir(row.id), GLANCE):
        return False
    context.store.keep_details(row.id, unhealthy=None)
    return True


def answers(folder: Path, patience: float) -> bool:
    """Check whether the supervisor answers within `patience` seconds."""
    client = GuestClient(folder)
    deadline = time.monotonic() + patience
    while (left := deadline - time.monotonic()) > 0:
        with suppress(GuestError), client.connect() as connection:
            connection.socket.settimeout(left)
            connection.ask("hello")
            return True
        time.sleep(POLL_SECONDS)
    return False


def _mend(context: Context, row: SessionRow) -> None:
    """Repair the leftovers of a checkpointer that died."""
    with suppress(HoldfastError, CheckpointerFailed):
        state = context.engine.inspect(row.container_id or "")
        if state is not None and state.running:
            asked = {"container": state.id, "init_pid": state.pid}
            with service.ask(context.engine, context.home, context.progress, "mend", **asked) as link:
                link.until("done")


def _pauses(folder: Path) -> list[str]:
    """Return the tokens of pauses that were never ended."""
    names = run_dir.names(folder, _LOOKED_AT)
    return [found.group(1) for name in names if (found := _PAUSED.fullmatch(name))]
