"""A job as its session reports it, as a value.  Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from holdfast.runtime.guest_rpc.guest_value import (
    Count,
    ExitCode,
    GuestValue,
    Observed,
    Seconds,
    listed,
    shown,
)

Name = Annotated[str, shown(128)]
Text = Annotated[str, shown(1000)]
_LATEST = 4e9  # in the year 2096; a later time is not plausible


def _moment(raw: Any) -> Any:
    if type(raw) in (int, float) and 0 <= raw < 1e12:
        return datetime.fromtimestamp(min(raw, _LATEST), UTC)
    return raw


class JobInfo(GuestValue):
    """A job as its session reports it.

    `exit_code` is None while it runs, and 128+n if a signal ended it; `killed_by` is the sender of a signal.
    `observed` is the job's present state, such as waiting for a password. Its output is kept from
    `start_offset` to `end_offset`. `duration` is in seconds, so far or in total. `rows` and `cols` are the
    size of its terminal.
    """

    id: Name
    name: Name = ""
    command: Text
    cwd: Text
    actor: Name = ""
    pid: Count
    state: Literal["running", "exited"]
    started_at: Annotated[datetime, BeforeValidator(_moment)]
    duration: Seconds = 0.0
    start_offset: Count
    end_offset: Count
    rows: Count = 0
    cols: Count = 0
    exit_code: ExitCode | None = None
    signal: Count | None = None
    killed_by: Name | None = None
    observed: Observed | None = None

    @property
    def running(self) -> bool:
        """True until it has ended."""
        return self.state == "running"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        return {**self.model_dump(), "started_at": self.started_at.isoformat()}


class JobList(GuestValue):
    """The jobs that a session knows."""

    jobs: Annotated[list[JobInfo], listed(1000)]
