# Made by setup/blocking from ../aio/async_insight.py; do not edit.
"""The state, history and reach of a session over a URL.

The values are loaded by those calls that return them: most programs use few.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from holdfast.errors import PortClosed
from holdfast.runtime.api.session_insight import PORT_SECONDS
from holdfast.runtime.client import client_values
from holdfast.runtime.client.blocking.remote_transport import RemoteTransport
from holdfast.runtime.client.http_call import HttpCall, given, place
from holdfast.runtime.guest_rpc.patience import Patience

if TYPE_CHECKING:
    from holdfast.runtime.egress.network_changes import Reach
    from holdfast.runtime.history.drift.drift_result import Drift
    from holdfast.runtime.pulse.pulse import Port, Pulse
    from holdfast.runtime.store.entry import Entry
    from holdfast.snapshots.survivability import Survivability


LONGEST_LOOK = 20.0
"""Seconds that one request waits: a server that is started again is asked again."""


class RemoteInsight:
    """Insight into one session, as `SessionInsight` has it."""

    def __init__(self, transport: RemoteTransport, session: str) -> None:
        self._transport, self._session = transport, session

    def pulse(
        self,
        *,
        parts: Sequence[str] | None = None,
        files: bool = False,
        pid: int | None = None,
        file: str | None = None,
        screens: bool = False,
        disk: bool = False,
        since: str | None = None,
    ) -> Pulse:
        """Return the current activity: processes, files, sockets, terminals, kernels, limits."""
        from holdfast.runtime.client import insight_values

        told = self._look(
            "pulse",
            part=None if parts is None else list(parts),
            files=files,
            pid=pid,
            file=file,
            screens=screens,
            disk=disk,
            since=since,
        )
        return insight_values.pulse(told)

    def port(self, number: int, *, speak: bool = True) -> Port:
        """Return the process that listens at a port, and whether it answers."""
        from holdfast.runtime.client import insight_values

        return insight_values.port(self._look("ports", str(number), speak=speak))

    def wait_port(self, number: int, *, patience: float | Patience | None = PORT_SECONDS) -> Port:
        """Wait until something accepts connections at a port, and return what listens there."""
        from holdfast.runtime.client import insight_values

        waiting = Patience.of(patience)
        waiting.begin()
        while True:
            left = waiting.left()
            seconds = 0.0 if waiting.ended else LONGEST_LOOK if left is None else min(left, LONGEST_LOOK)
            try:
                return insight_values.port(self._look("ports", str(number), "wait", patience=seconds))
            except PortClosed:
                if waiting.over:
                    raise

    def journal(
        self,
        after: int | None = None,
        *,
        kinds: Collection[str] | None = None,
        actor: str | None = None,
        since: datetime | None = None,
        grep: str | None = None,
        all_timelines: bool = False,
        limit: int | None = None,
    ) -> list[Entry]:
        """Return the journal of the session and of its ancestors, oldest first; also after it is gone."""
        from holdfast.runtime.client import insight_values

        if kinds is not None and not kinds:
            return []  # an empty list cannot be sent as a parameter
        told = self._look(
            "journal",
            after=after,
            kind=None if kinds is None else list(kinds),
            actor=actor,
            since=None if since is None else since.astimezone(UTC).isoformat(),
            grep=grep,
            all_timelines=all_timelines,
            limit=limit,
        )
        return [insight_values.entry(each) for each in client_values.tables(told)]

    def drift(self, since: str, *, everything: bool = False) -> Drift:
        """Return what changed since a point in time, and who changed it."""
        from holdfast.runtime.client import insight_values

        return insight_values.drift(self._look("drift", since=since, everything=everything))

    def check(self) -> Survivability:
        """Return the resources that survive a capture, are closed in copies, or block a capture."""
        from holdfast.runtime.client import insight_values

        return insight_values.survivability(self._look("check", own=True))

    def _look(self, *what: str, **params: Any) -> Any:
        return self._transport.ask(HttpCall("GET", place("sessions", self._session, *what), params))


class RemoteNetwork:
    """What a session has of `SessionNetwork`: a part of its class, because changes return the session."""

    _transport: RemoteTransport
    _session: str

    def network(self) -> Reach:
        """Return the hosts that the session can reach, and recent refusals."""
        from holdfast.runtime.client import insight_values

        return insight_values.reach(self._transport.ask(HttpCall("GET", self._network)))

    def change_network(
        self,
        network: str | None = None,
        *,
        allow: Sequence[str] = (),
        disallow: Sequence[str] = (),
        deny: Sequence[str] = (),
        no_deny: Sequence[str] = (),
        domains: Sequence[str] = (),
        no_domains: Sequence[str] = (),
    ) -> Self:
        """Change the network rules in one step. `network` is `internet` or `open`."""
        body = given(
            network=network,
            allow=list(allow),
            disallow=list(disallow),
            deny=list(deny) or None,  # servers of earlier versions know neither
            no_deny=list(no_deny) or None,
            domains=list(domains),
            no_domains=list(no_domains),
        )
        self._transport.ask(HttpCall("PATCH", self._network, body=body))
        return self

    def allow(self, *places: str) -> Self:
        """Let the session also reach HOST:PORT: immediately if it runs, else when it is resumed."""
        return self.change_network(allow=places)

    def disallow(self, *places: str) -> Self:
        """Remove exceptions. Open connections end with the next packet that the session sends."""
        return self.change_network(disallow=places)

    def allow_domains(self, *names: str) -> Self:
        """Let a session with a list of domains reach these as well: NAME, `*.NAME` or NAME:PORT."""
        return self.change_network(domains=names)

    def disallow_domains(self, *names: str) -> Self:
        """Remove domains. Open connections continue."""
        return self.change_network(no_domains=names)

    @property
    def _network(self) -> str:
        return place("sessions", self._session, "network")
