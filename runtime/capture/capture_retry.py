"""Retries of captures that failed for a transient reason.

Examples are a machine that is too busy to begin in time, a connection that is being accepted, a process that
is ending or starting a program, and messages of the kernel that were not read yet. Between two attempts the
session runs. The number of attempts is bounded; all other failures are reported at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NoReturn, TypeVar

from holdfast.base import polling
from holdfast.errors import CaptureFailed, GuestDisconnected
from holdfast.runtime.guest_rpc.guest_client import Connection, GuestClient
from holdfast.snapshots import explain
from holdfast.snapshots.link import CheckpointerFailed

T = TypeVar("T")

PAUSES = (0.05, 0.2, 0.5)
"""Seconds before the second, third and last attempt."""
AWAKE_SECONDS = 5.0
"""How long a session that wakes up may take to listen again."""


class BeganLate(Exception):
    """A session had given up waiting for its capture to begin, and ran on: the machine is busy.

    `refusal` is what to say if no other attempt is made.
    """

    def __init__(self, refusal: CaptureFailed) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


def connected(client: GuestClient) -> Connection:
    """Connect to a session that may just be waking up.

    Raises:
        GuestDisconnected: it does not listen within `AWAKE_SECONDS`.
    """
    return polling.while_raising(GuestDisconnected, client.connect, AWAKE_SECONDS, 0.005)


def until_settled(attempt: Callable[[], T], refuse: Callable[[CheckpointerFailed], NoReturn]) -> T:
    """Return what `attempt` returns; call `refuse` with the last Refused if the attempts run out."""
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
