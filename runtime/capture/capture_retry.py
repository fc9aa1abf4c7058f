"""Tries a capture again that failed for what is gone a moment later.

Such as: a connection that is being accepted, a process that is just ending or starting a program, messages of
the kernel that nobody read yet. Between two tries the session is awake and goes on. It is tried a bounded
number of times; everything else that fails is told at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NoReturn, TypeVar

from holdfast.base import polling
from holdfast.errors import GuestDisconnected
from holdfast.runtime.guest_rpc.guest_client import Connection, GuestClient
from holdfast.snapshots import explain
from holdfast.snapshots.link import Refused

T = TypeVar("T")

PAUSES = (0.05, 0.2, 0.5)
"""Seconds before the second, third and last try."""
AWAKE_SECONDS = 5.0
"""How long a session that wakes may take to listen again."""


def connected(client: GuestClient) -> Connection:
    """A connection to a session that may just be waking. Raises GuestDisconnected."""
    return polling.while_raising(GuestDisconnected, client.connect, AWAKE_SECONDS, 0.005)


def until_settled(attempt: Callable[[], T], refuse: Callable[[Refused], NoReturn]) -> T:
    """What `attempt` returns, which raises Refused; `refuse` says it when that does not change."""
    for pause in PAUSES:
        try:
            return attempt()
        except Refused as refusal:
            if refusal.kind != "criu" or not explain.explain(refusal.errors).passing:
                refuse(refusal)
        time.sleep(pause)
    try:
        return attempt()
    except Refused as refusal:
        refuse(refusal)
