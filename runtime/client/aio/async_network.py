"""What a session over a URL can reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.http_call import HttpCall, given, place

if TYPE_CHECKING:
    from holdfast.runtime.egress.network_changes import Reach


class AsyncNetwork:
    """What a session has of `SessionNetwork`: a part of its class, because changes return the session."""

    _transport: AsyncTransport
    _session: str

    async def network(self) -> Reach:
        """Return what the session can reach, and what it was refused lately."""
        from holdfast.runtime.client import insight_values

        return insight_values.reach(await self._transport.ask(HttpCall("GET", self._network)))

    async def change_network(
        self,
        network: str | None = None,
        *,
        allow: Sequence[str] = (),
        disallow: Sequence[str] = (),
        domains: Sequence[str] = (),
        no_domains: Sequence[str] = (),
    ) -> Self:
        """Change the network rules in one step. `network` is `internet` or `open`."""
        body = given(
            network=network,
            allow=list(allow),
            disallow=list(disallow),
            domains=list(domains),
            no_domains=list(no_domains),
        )
        await self._transport.ask(HttpCall("PATCH", self._network, body=body))
        return self

    async def allow(self, *places: str) -> Self:
        """Let the session reach HOST:PORT as well: at once if it runs, else when it is resumed."""
        return await self.change_network(allow=places)

    async def disallow(self, *places: str) -> Self:
        """Remove exceptions. Open connections end with the next packet that the session sends."""
        return await self.change_network(disallow=places)

    async def allow_domains(self, *names: str) -> Self:
        """Let a session with a list of domains reach these as well: NAME, `*.NAME` or NAME:PORT."""
        return await self.change_network(domains=names)

    async def disallow_domains(self, *names: str) -> Self:
        """Remove domains. Open connections continue."""
        return await self.change_network(no_domains=names)

    @property
    def _network(self) -> str:
        return place("sessions", self._session, "network")
