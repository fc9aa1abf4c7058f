"""The places of sessions, for a server that is a node of a cluster: on this node, on another, or asleep.

Requests for a session of another node get its address. A request for a session that sleeps wakes it, unless
it only looks. A proxy asks for the way first, and that answer waits for a session that is being started. A
proxy cannot repeat a request after its body has left, so the wrong node asks its client to come again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from holdfast.errors import (
    HoldfastError,
    SessionElsewhere,
    SessionMoving,
    SessionNotFound,
)
from holdfast.runtime.http_doors.admission import Refusal, Scope

if TYPE_CHECKING:
    from holdfast.runtime.cluster.cluster_rows import SessionRoute

NODE = b"holdfast-node"
"""The header with the address of the node that has a session."""
ROUTED = b"holdfast-routed"
"""The header of requests that a proxy brings where `/v1/route` led it."""
WAIT_SECONDS = 20.0
"""How long the question for the way waits for a session that is being started."""
_LOOK_SECONDS = 0.1
_LOOKS = re.compile(r"/(?:v1/sessions|(?:v2/)?sandboxes)/[^/]+(?:/|$)")
"""Paths below which reading does not use a session."""


class ClusterSessions(Protocol):
    """The part of the cluster's database that requests need."""

    def route(self, ref: str) -> SessionRoute:
        """Return where requests for a session go."""
        ...

    def wake(self, session: str) -> object:
        """Choose a node for a session that sleeps."""
        ...


@dataclass(frozen=True, slots=True)
class Away:
    """The answer to a request for a session that is not here."""

    refusal: Refusal
    headers: Mapping[bytes, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlacedRequest:
    """The properties of a request that its answer depends on, if its session is not here.

    `looks`: it reads what is known of the session, and does not use it. `routed`: a proxy has brought it
    where `/v1/route` led it. `admitted`: its credential is valid; strangers wake nothing.
    """

    looks: bool = False
    routed: bool = False
    admitted: bool = True

    @classmethod
    def of(cls, scope: Scope, *, admitted: bool) -> PlacedRequest:
        """Return the properties of a request."""
        looks = scope.get("method") in ("GET", "HEAD") and _LOOKS.match(scope["path"]) is not None
        return cls(looks, any(name == ROUTED for name, _ in scope["headers"]), admitted)


class SessionPlaces:
    """The places of sessions, as the node at `address` tells them."""

    def __init__(self, sessions: ClusterSessions, address: str) -> None:
        self._sessions, self.address = sessions, address

    def reachable(self, ref: str) -> SessionRoute:
        """Return where requests for a session go; wait for a while for one that is being started.

        Raises:
            SessionNotFound: the cluster does not have such a session.
        """
        found = self._sessions.route(ref)
        until = time.monotonic() + WAIT_SECONDS
        while found.state == "starting" and not found.address and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
            found = self._sessions.route(ref)
        return found

    def away(self, ref: str, request: PlacedRequest) -> Away | None:
        """Return the answer to a request for a session that this home lacks; None if that is for the home."""
        try:
            found = self._sessions.route(ref)
        except SessionNotFound:
            return None
        if found.state == "asleep":
            if request.looks or not request.admitted:
                return Away((409, "session_asleep", f"session {found.name} sleeps: a command wakes it"))
            self._sessions.wake(found.session)
            return again(f"session {found.name} wakes")
        if found.address == self.address:
            return None
        if not found.address:
            reason = f" ({found.reason})" if found.reason else ""
            state = found.state.replace("_", " ")
            return again(f"session {found.name} cannot be reached now: it is {state}{reason}")
        if request.routed:
            return again(f"session {found.name} has just moved to node {found.node}")
        why = f"node {found.node} has session {found.name}: send the request there, or to the proxy"
        return Away(
            (421, "session_elsewhere", why), {NODE: found.address.encode()} if request.admitted else {}
        )

    def error(self, ref: str, *, begun: bool) -> HoldfastError | None:
        """Return why a call of a channel cannot be made here; None if the cluster does not have the session.

        One that has `begun` is not made again elsewhere: its caller decides that.
        """
        away = self.away(ref, PlacedRequest(routed=begun))
        if away is None:
            return None
        _, code, why = away.refusal
        kind = SessionElsewhere if code == "session_elsewhere" else SessionMoving
        return kind(f"cannot answer here: {why}", hint="try again in a moment")


def again(why: str) -> Away:
    """Return the answer that asks for the request once more, in a moment."""
    return Away((503, "session_moving", why), {b"retry-after": b"1"})
