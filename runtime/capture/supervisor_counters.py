"""How far the records of a session go, as its supervisor counts them.  Pure."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.guest_value import Count, GuestValue, Seconds, shown
from holdfast.runtime.guest_rpc.wire_fields import GREATEST


class Records(GuestValue):
    """The end of the journal, and of the output of each shell."""

    journal_seq: Count
    at: Seconds = 0.0
    offsets: Annotated[dict[Annotated[str, shown(100)], Count], Field(max_length=1000)]


class SupervisorCounters(Records):
    """The same, and what was requested of the supervisor since it began."""

    requests: Count
    supervisor_pid: Annotated[int, Field(ge=2, le=GREATEST)]


def root_of(frame: Frame) -> int:
    """Return the inner pid of the root of a session's tree: the keeper, or an older supervisor itself."""
    key = "root_pid" if "root_pid" in frame.head else "supervisor_pid"
    return wire_fields.integer(frame, key, least=2)
