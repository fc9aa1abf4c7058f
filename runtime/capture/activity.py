"""Activity of a session since its last capture, according to its journal. Stores nothing."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from holdfast.errors import ProtocolError
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.store import peek

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel

BEGUN = ("command_started", "cell_started")
DONE = (
    *BEGUN,
    "command_ended",
    "cell_ended",
    "task_started",
    "task_ended",
    "input",
    "changed",
    "process_exited",
)
RECENT = 200
"""Entries at the journal's end that are searched for the last activity."""
LATEST = 1e12
"""The largest Unix time accepted from a session, in seconds; some thirty thousand years."""


def count(line: SessionChannel, enough: int) -> bool:
    """Check whether this many commands and cells were started since the last capture."""
    after = peek.last_moment(line.context.home.database, line.row) or 0
    frames = line.client().call("journal", after_seq=after, kinds=list(BEGUN), limit=enough)
    return sum(1 for frame in frames if wire_fields.event(frame) == "entry") >= enough


def idle(line: SessionChannel, seconds: float) -> bool:
    """Check whether there was activity since the last capture, but none for the last `seconds`."""
    known = peek.last_moment(line.context.home.database, line.row) or 0
    client = line.client()
    seq = wire_fields.integer(client.request("moment"), "journal_seq")
    after = max(known, seq - RECENT)
    last = 0.0
    for frame in client.call("journal", after_seq=after, kinds=list(DONE), limit=RECENT):
        if wire_fields.event(frame) == "entry":
            last = max(last, _time(frame.payload))
    return last > 0 and time.time() - last >= seconds


def _time(payload: bytes) -> float:
    try:
        at = json.loads(payload)["at"]
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise ProtocolError("cannot understand the session: a journal entry has no time") from error
    # Integers of JSON are unbounded, floats are not.
    return float(at) if isinstance(at, int | float) and 0 <= at < LATEST else 0.0
