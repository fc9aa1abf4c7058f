"""How far the records of a session go, as its supervisor counts them.  Pure."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

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
