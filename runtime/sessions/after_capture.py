"""What became of a session whose capture was cut short: it answers again, or is said not to.

A capture that is killed in the middle lets the session's processes go on, almost always as if nothing had
been. What was injected into them just then may have broken one. If it was the supervisor, nobody can reach
the session any more; that is found out here and kept with the session, so that whoever comes next is told.
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
from holdfast.snapshots.link import Refused

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow

PATIENCE = 5.0
"""Seconds a supervisor has to answer when nothing holds it any more. It takes milliseconds."""
GLANCE = 1.0
"""The same for one that did not answer before."""
_POLL = 0.01

_PAUSED = re.compile(re.escape(layout.paused_name("")) + r"([0-9a-f]{32})")
# A session may put any number of files there.
_LOOKED_AT = 1000


def look(context: Context, row: SessionRow, *, cut: bool = False) -> None:
    """See whether a running session answers after a capture of it failed, and remember if it does not.

    With `cut`, the checkpointer had begun to capture its processes, and may have died over it.
    """
    if cut:
        _mend(context, row)
    folder = context.home.run_dir(row.id)
    for token in _pauses(folder):
        with suppress(StoreError):
            identity_messages.wake(folder, row, token, "aborted")
    if answers(folder, PATIENCE):
        return
    from holdfast.runtime.journal import host_events

    why = "a capture of it was cut short, and its supervisor does not answer since"
    context.store.keep_details(row.id, unhealthy={"container": row.container_id, "why": why})
    host_events.note(context, row.id, "unhealthy", actor="system", why=why)


def trouble(row: SessionRow) -> str:
    """Why a session cannot be reached; nothing if that is not known, or was so of an earlier container."""
    return row.details.trouble(row.container_id)


def recovered(context: Context, row: SessionRow) -> bool:
    """Whether a session that did not answer does now; then that is remembered, too."""
    if not answers(context.home.run_dir(row.id), GLANCE):
        return False
    context.store.keep_details(row.id, unhealthy=None)
    return True


def answers(folder: Path, patience: float) -> bool:
    """Whether the supervisor says who it is within so many seconds."""
    client = GuestClient(folder)
    deadline = time.monotonic() + patience
    while (left := deadline - time.monotonic()) > 0:
        with suppress(GuestError), client.connect() as connection:
            connection.socket.settimeout(left)
            connection.ask("hello")
            return True
        time.sleep(_POLL)
    return False


def _mend(context: Context, row: SessionRow) -> None:
    """What a checkpointer that died could not put right itself."""
    with suppress(HoldfastError, Refused):
        state = context.engine.inspect(row.container_id or "")
        if state is not None and state.running:
            asked = {"container": state.id, "init_pid": state.pid}
            with service.ask(context.engine, context.home, context.progress, "mend", **asked) as link:
                link.until("done")


def _pauses(folder: Path) -> list[str]:
    """The tokens of pauses that nobody ended."""
    names = run_dir.names(folder, _LOOKED_AT)
    return [found.group(1) for name in names if (found := _PAUSED.fullmatch(name))]
