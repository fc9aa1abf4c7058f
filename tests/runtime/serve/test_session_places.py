"""The answers of a node to requests for sessions that are elsewhere, or on none."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import SessionElsewhere, SessionMoving, SessionNotFound
from holdfast.runtime.cluster.cluster_rows import SessionRoute, SessionState
from holdfast.runtime.serve.session_places import NODE, PlacedRequest, SessionPlaces

HERE, THERE = "http://10.0.0.5:8420", "http://10.0.0.6:8420"


class Sessions:
    """The cluster's word on its sessions."""

    def __init__(self, *routes: SessionRoute) -> None:
        self._routes = {each.name: each for each in routes}
        self.woken: list[str] = []

    def route(self, ref: str) -> SessionRoute:
        if ref not in self._routes:
            raise SessionNotFound(f"cannot find {ref}")
        return self._routes[ref]

    def wake(self, session: str) -> object:
        self.woken.append(session)
        return None


def route(name: str, state: SessionState, address: str | None = None) -> SessionRoute:
    return SessionRoute(name, name, state, 1, "rack2" if address else None, address, "")


def scope(method: str, path: str, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"type": "http", "method": method, "path": path, "headers": list(headers)}


@pytest.mark.parametrize(
    ("found", "request_", "status", "told"),
    [
        (route("s", "running", THERE), PlacedRequest(), 421, {NODE: THERE.encode()}),
        (route("s", "running", THERE), PlacedRequest(admitted=False), 421, {}),
        (route("s", "running", THERE), PlacedRequest(routed=True), 503, {b"retry-after": b"1"}),
        (route("s", "running", HERE), PlacedRequest(), None, {}),
        (route("s", "starting"), PlacedRequest(), 503, {b"retry-after": b"1"}),
        (route("s", "asleep"), PlacedRequest(looks=True), 409, {}),
        (route("s", "asleep"), PlacedRequest(admitted=False), 409, {}),
        (route("s", "asleep"), PlacedRequest(), 503, {b"retry-after": b"1"}),
        (route("other", "running", THERE), PlacedRequest(), None, {}),
    ],
    ids=[
        "elsewhere",
        "elsewhere, stranger",
        "elsewhere, by proxy",
        "here",
        "starting",
        "asleep, read",
        "asleep, stranger",
        "asleep, used",
        "unknown",
    ],
)
def test_a_request_for_a_session_that_is_not_here(
    found: SessionRoute, request_: PlacedRequest, status: int | None, told: dict[bytes, bytes]
) -> None:
    """Addresses are for admitted callers, and only their use of a session wakes it."""
    sessions = Sessions(found)
    away = SessionPlaces(sessions, HERE).away("s", request_)
    assert (away and away.refusal[0]) == status
    assert (dict(away.headers) if away else {}) == told
    assert bool(sessions.woken) == (found.state == "asleep" and status == 503)


def test_what_a_request_does_with_a_session() -> None:
    """Reading what is known of it is not use of it, except by browsers that reach its ports."""
    assert PlacedRequest.of(scope("GET", "/v1/sessions/work/events"), admitted=True).looks
    assert PlacedRequest.of(scope("HEAD", "/sandboxes/work"), admitted=True).looks
    assert not PlacedRequest.of(scope("POST", "/v1/sessions/work/exec"), admitted=True).looks
    assert not PlacedRequest.of(scope("GET", "/jupyter/work/api/kernels"), admitted=True).looks
    assert not PlacedRequest.of(scope("GET", "/"), admitted=True).looks
    assert PlacedRequest.of(scope("GET", "/", (b"holdfast-routed", b"1")), admitted=True).routed


def test_a_call_that_has_begun_is_not_made_elsewhere() -> None:
    """Its caller decides that: it could run twice."""
    places = SessionPlaces(Sessions(route("s", "running", THERE)), HERE)
    assert isinstance(places.error("s", begun=False), SessionElsewhere)
    assert isinstance(places.error("s", begun=True), SessionMoving)
    assert places.error("other", begun=False) is None
