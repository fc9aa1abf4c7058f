"""The state, history and reach of a session over a URL.

The values are loaded by those calls that return them: most programs use few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from holdfast.errors import PortClosed
from holdfast.runtime.api.session_insight import PORT_SECONDS, SessionInsight
from holdfast.runtime.api.session_network import SessionNetwork
from holdfast.runtime.api.session_snapshots import SessionSnapshots
from holdfast.runtime.client import bound_methods, client_values
from holdfast.runtime.client.aio.async_handle import AsyncSessionPart, requesting
from holdfast.runtime.client.bound_methods import Route, asking, each
from holdfast.runtime.guest_rpc.patience import Patience

if TYPE_CHECKING:
    from holdfast.runtime.pulse.pulse import Port
    from holdfast.runtime.store.entry import Entry


LONGEST_LOOK = 20.0
"""Seconds that one request waits: a server that is started again is asked again."""


class AsyncInsight(AsyncSessionPart):
    """Insight into one session, as `SessionInsight` has it."""

    pulse = requesting(
        SessionInsight.pulse, Route("GET", "pulse", {"parts": "part"}), bound_methods.late("pulse")
    )
    port = requesting(SessionInsight.port, Route("GET", "ports/{number}"), bound_methods.late("port"))
    metrics = requesting(SessionInsight.metrics, Route("GET", "metrics"), each(bound_methods.late("metrics")))
    drift = requesting(SessionInsight.drift, Route("GET", "drift"), bound_methods.late("drift"))

    async def _check(self, _verb: str, _told: dict[str, Any]) -> Any:
        return bound_methods.late("survivability")(await self._ask("GET", "check", own=True))

    async def _wait_port(self, _verb: str, told: dict[str, Any]) -> Port:
        from holdfast.runtime.client import insight_values

        waiting = Patience.of(told.get("patience", PORT_SECONDS))
        waiting.begin()
        while True:
            try:
                path = ("ports", str(told["number"]), "wait")
                found = await self._transport.ask(self._call("GET", *path, patience=LONGEST_LOOK), waiting)
                return insight_values.port(found)
            except PortClosed:
                if waiting.over:
                    raise

    async def _journal(self, _verb: str, told: dict[str, Any]) -> list[Entry]:
        from holdfast.runtime.client import insight_values

        kinds = told.pop("kinds", None)
        if kinds is not None and not kinds:
            return []  # an empty list cannot be sent as a parameter
        found = await self._ask("GET", "journal", kind=kinds, **told)
        return [insight_values.entry(each) for each in client_values.tables(found)]

    journal = asking(SessionInsight.journal, _journal)
    wait_port = asking(SessionInsight.wait_port, _wait_port)
    check = asking(SessionSnapshots.check, _check)


class AsyncNetwork(AsyncSessionPart):
    """What a session has of `SessionNetwork`: a part of its class, because changes return the session."""

    network = requesting(SessionNetwork.network, Route("GET", "network"), bound_methods.late("reach"))

    async def _changed(self, _verb: str, told: dict[str, Any]) -> Self:
        await self._ask("PATCH", "network", body=told)
        return self

    async def _listed(self, field: str, told: dict[str, Any]) -> Self:
        return await self._changed(field, {field: [each for given in told.values() for each in given]})

    change_network = asking(SessionNetwork.change_network, _changed)
    allow = asking(SessionNetwork.allow, _listed)
    disallow = asking(SessionNetwork.disallow, _listed)
    allow_domains = asking(SessionNetwork.allow_domains, _listed, "domains")
    disallow_domains = asking(SessionNetwork.disallow_domains, _listed, "no_domains")
