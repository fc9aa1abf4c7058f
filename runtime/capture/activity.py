"""Activity of a session since its last capture, according to its journal. Stores nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.store import peek

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel

BEGUN = ("command_started", "cell_started")
DONE = (
    *BEGUN,
    "command_ended",
    "cell_ended",
    "job_started",
    "job_ended",
    "input",
    "changed",
    "process_exited",
)
RECENT = 200
"""Entries at the journal's end that are searched for the last activity."""


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
            last = max(last, wire_fields.number(wire_fields.body(frame), "at"))
    return last > 0 and time.time() - last >= seconds
