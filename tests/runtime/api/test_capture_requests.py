"""The service for captures, without a session: requests are checked, and long silence does not end it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from holdfast.errors import CaptureFailed, GuestDisconnected
from holdfast.runtime.api import capture_requests
from holdfast.runtime.api.capture_requests import Serving, asked
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc import reconnect as reconnection
from holdfast.runtime.guest_rpc.reconnect import Reconnection


def test_requests_of_programs_are_validated() -> None:
    """Malformed ones are left out, and unprintable text is removed from the rest."""
    found = asked({"pid": -1, "command": "a\x1b[2Jb", "label": 7, "reason": "x" * 9000, "failure": "no"})
    assert (found.pid, found.command, found.label) == (0, "a[2Jb", None)
    assert len(str(found.reason)) == capture_requests.REASON
    assert (found.failure.reason, found.failure.command) == ("asked", "a[2Jb")
    assert asked({"command": "c", "failure": {"reason": "nonsense"}}).failure.reason == "asked"
    told = asked({"command": "c", "failure": {"reason": "hang", "where": "x:1"}}).failure
    assert (told.reason, told.where, told.command) == ("hang", "x:1", "c")
    assert capture_requests.why(CaptureFailed("cannot: no")) == {
        "code": "capture_failed",
        "message": "cannot: no",
    }


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


class Supervisor:
    """Connections that are cut after an hour without a request; the third one has a request."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.holding: list[int] = []
        self.sent: list[dict[str, Any]] = []
        self.told = threading.Event()

    def reconnection(self) -> Reconnection:
        return Reconnection(lambda: None)

    def client(self) -> Supervisor:
        return self

    @contextmanager
    def open(self, op: str, holding: int) -> Iterator[Supervisor]:
        assert op == "captures"
        self.holding.append(holding)
        yield self

    def events(self) -> Iterator[Frame]:
        yield Frame({"event": "serving"})
        self.clock.now += 3600.0
        if len(self.holding) < 3:
            raise GuestDisconnected("cut")
        request = json.dumps({"reason": "why"}).encode()
        yield Frame({"event": "request", "number": 5}, request)
        assert self.told.wait(60)
        yield Frame({"event": "answered", "number": 5})
        yield Frame({"event": "closed", "end": True})

    def send(self, head: dict[str, Any]) -> None:
        self.sent.append(head)
        self.told.set()

    def hang_up(self) -> None:
        return


def test_silence_does_not_end_serving(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is lost after an hour without a request is made again; a refusal is reported."""
    clock = Clock()
    monkeypatch.setattr(reconnection, "time", clock)
    supervisor = Supervisor(clock)

    def take(_: object) -> Any:
        raise CaptureFailed("cannot: no", hint="wait")

    with capture_requests.serving(Serving(cast("Any", supervisor), take)) as serving:
        assert serving.over.wait(60)
    assert serving.error is None
    assert supervisor.holding == [0, 0, 0]
    refusal = {"op": "failed", "number": 5, "code": "capture_failed", "message": "cannot: no", "hint": "wait"}
    assert supervisor.sent[0] == refusal
    assert [str(served.error) for served in serving.served] == ["cannot: no"]
