"""A survey that lasts reports how many processes it has looked at."""

from __future__ import annotations

import json
import socket

from holdfast.snapshots.checkpointer.survey.check import REPORTED_EVERY, Reports
from holdfast.snapshots.checkpointer.wire.channel import HostChannel


def test_amounts_are_reported_at_intervals_and_none_by_a_short_survey() -> None:
    times = iter([0.0, 0.1, REPORTED_EVERY, REPORTED_EVERY + 0.01, 2 * REPORTED_EVERY])
    host, other = socket.socketpair()
    with host, other:
        reports = Reports(HostChannel(other), lambda: next(times))
        for done in range(1, 5):
            reports(done, 9)
        other.shutdown(socket.SHUT_WR)
        with host.makefile() as lines:
            events = [json.loads(line) for line in lines]
    assert events == [{"event": "looked", "done": done, "total": 9} for done in (2, 4)]
