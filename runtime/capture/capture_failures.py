"""Failed attempts at a capture: which ones are repeated, and the error for the others.

An attempt is repeated if its reason is transient: a machine that is too busy to begin in time, a connection
that is being accepted, a process that is ending or starting a program, and messages of the kernel that were
not read yet. Between two attempts the session runs. The number of attempts is bounded; all other failures are
reported immediately, in the words of the survivability report.
"""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from holdfast.base import polling
from holdfast.errors import CaptureFailed, GuestDisconnected, HoldfastError, LiveUnsupported, StoreError
from holdfast.runtime.guest_rpc.guest_client import Connection, GuestClient
from holdfast.snapshots import explain
from holdfast.snapshots.link import CheckpointerFailed

if TYPE_CHECKING:
    from holdfast.runtime.store.rows import SessionRow


def of_capture(
    session: SessionRow, root: Path, refusal: CheckpointerFailed, names: Mapping[tuple[int, int | None], str]
) -> HoldfastError:
    """Return the error for a refusal of the checkpointer; `names` has commands by pid and descriptor."""
    if refusal.kind != "criu":
        return CaptureFailed(
            f"cannot snapshot session {session.name}: {refusal}", hint="the session continues"
        )
    reason = explain.named(explain.explain(refusal.errors), names)
    if reason.no_space:
        return full(session, root)
    message = f"cannot take a live snapshot of session {session.name}: {reason.text}"
    hint = f"{reason.advice}; the session continues; `--kind filesystem` keeps its files only"
    if not reason.known:
        return CaptureFailed(message, hint=hint)
    finding = {
        "verdict": "blocks",
        "kind": reason.kind,
        "pid": reason.pid,
        "fd": reason.fd,
        "command": names.get((reason.pid, None), "") if reason.pid is not None else "",
        "what": names.get((reason.pid, reason.fd), "") if reason.pid is not None else "",
        "reason": reason.text,
        "advice": reason.advice,
    }
    return LiveUnsupported(message, hint=hint, findings=(finding,))


def unwritable(session: SessionRow, root: Path, error: OSError) -> StoreError:
    """Return the error for a state directory that cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return full(session, root)
    return StoreError(
        f"cannot snapshot session {session.name}: {root} cannot be written ({error.strerror or error})",
        hint="the session continues",
    )


def full(session: SessionRow, root: Path) -> StoreError:
    """Return the error for a state directory without space; the partial snapshot was removed."""
    try:
        free = f"more than the {shutil.disk_usage(root).free >> 20} MiB that are free"
    except OSError:
        free = "all space"
    return StoreError(
        f"cannot snapshot session {session.name}: no space left in {root}: it takes {free}",
        hint="make room, or set HOLDFAST_HOME to a folder on a larger disk; the session continues",
    )


T = TypeVar("T")

PAUSES = (0.05, 0.2, 0.5)
"""Seconds before the second, third and last attempt."""
AWAKE_SECONDS = 5.0
"""The longest time a session that wakes up can take to listen again."""


class BeganLate(Exception):
    """A session had given up waiting for its capture to begin, and continued: the machine is busy.

    `refusal` is what to say if no other attempt is made.
    """

    def __init__(self, refusal: CaptureFailed) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


def connected(client: GuestClient) -> Connection:
    """Connect to a session that is possibly just waking up.

    Raises:
        GuestDisconnected: it does not listen within `AWAKE_SECONDS`.
    """
    return polling.while_raising(GuestDisconnected, client.connect, AWAKE_SECONDS, 0.005)


def until_settled(attempt: Callable[[], T], refuse: Callable[[CheckpointerFailed], NoReturn]) -> T:
    """Return the result of `attempt`; call `refuse` with the last Refused if the attempts run out."""
    for pause in PAUSES:
        try:
            return attempt()
        except BeganLate:
            pass
        except CheckpointerFailed as refusal:
            if not _passes(refusal):
                refuse(refusal)
        time.sleep(pause)
    try:
        return attempt()
    except BeganLate as late:
        raise late.refusal from late
    except CheckpointerFailed as refusal:
        refuse(refusal)


def repeats(failure: CheckpointerFailed | BeganLate, made: int) -> bool:
    """Check whether `until_settled` makes another attempt after one that failed like this, `made` so far."""
    return made <= len(PAUSES) and _passes(failure)


def _passes(failure: CheckpointerFailed | BeganLate) -> bool:
    if isinstance(failure, BeganLate):
        return True
    return failure.kind == "criu" and explain.explain(failure.errors).passing
