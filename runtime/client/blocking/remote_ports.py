# Made by setup/blocking from ../aio/async_ports.py; do not edit.
"""The ports of a session over a URL, and links for people to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.runtime.client import client_values
from holdfast.runtime.client.blocking.remote_transport import RemoteTransport
from holdfast.runtime.client.http_call import HttpCall, place
from holdfast.runtime.sessions import preview_grants

if TYPE_CHECKING:
    from holdfast.runtime.pulse.listening_ports import ListeningPort, Preview


class RemotePorts:
    """The ports of one session, as `SessionPorts` has them."""

    def __init__(self, transport: RemoteTransport, session: str) -> None:
        self._transport, self._session = transport, session

    def ports(self) -> list[ListeningPort]:
        """Return the ports at which a program listens, by number, with its answer."""
        from holdfast.runtime.client import insight_values

        told = self._transport.ask(HttpCall("GET", place("sessions", self._session, "ports")))
        return [insight_values.listening_port(each) for each in client_values.tables(told)]

    def preview(self, port: int, *, public: bool = False, seconds: float = preview_grants.SECONDS) -> Preview:
        """Return a link by which a browser sees what listens at a port, by the address of this client.

        Args:
            port: a port of the session's loopback, or of all its addresses.
            public: everyone who knows the name of the port sees it, without a link.
            seconds: how long, at most 30 days.
        """
        from holdfast.runtime.client import insight_values

        body = {"public": public, "seconds": int(seconds)}
        return insight_values.preview(self._transport.ask(HttpCall("POST", self._preview(port), body=body)))

    def revoke_preview(self, port: int) -> None:
        """End all links of a port, and its being public; visits end within seconds."""
        self._transport.ask(HttpCall("DELETE", self._preview(port)))

    def _preview(self, port: int) -> str:
        return place("sessions", self._session, "ports", str(port), "preview")
