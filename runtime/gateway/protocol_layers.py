"""The choice of a connection's protocol: as little as possible is inspected.

A tunnel is opened only if it is TLS to a host that receives a secret. In a tunnel to a host that is reached
by its name alone, the greetings are followed (`greetings`); all other tunnels pass unchanged.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

from mitmproxy.net.tls import starts_like_tls_record
from mitmproxy.proxy import commands, events, layer, layers
from mitmproxy.proxy.layers import modes
from mitmproxy.proxy.layers.http import HttpLayer, HTTPMode
from mitmproxy.proxy.layers.tls import parse_client_hello

from holdfast.runtime.gateway import destinations
from holdfast.runtime.gateway.addon import Gateway
from holdfast.runtime.gateway.greetings import GreetingWatch, NotThisHost
from holdfast.runtime.gateway.names import canonical

_GREETING = 64 << 10
_NO_NAME = "*"
"""Stands for the name in data that is not a greeting; no host has it."""


class ProtocolLayers:
    """Answers mitmproxy's question for the next layer."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def next_layer(self, asked: layer.NextLayer) -> None:
        """Decide, or leave it open until more has arrived."""
        above = asked.context.layers
        if len(above) == 1 and isinstance(above[0], modes.HttpProxy):
            asked.layer = HttpLayer(asked.context, HTTPMode.regular)
        elif any(isinstance(one, layers.ClientTLSLayer) for one in above):
            asked.layer = HttpLayer(asked.context, HTTPMode.transparent)
        else:
            asked.layer = self._tunnel(asked)

    def _tunnel(self, asked: layer.NextLayer) -> layer.Layer | None:
        context, data = asked.context, asked.data_client()
        policy = self._gateway.policy(context.client)
        if policy is None or context.server.address is None:
            return _Closed(context)
        host, port = canonical(context.server.address[0]), context.server.address[1]
        by_name = destinations.by_name_alone(policy, host, port)
        if not policy.secrets_for("https", host, port):
            if by_name:
                return _Followed(
                    context, GreetingWatch(host), partial(self._gateway.refused, policy, host, port)
                )
            return layers.TCPLayer(context, ignore=True)
        if not data and not asked.data_server():
            return None
        if not data or data[0] != 0x16:
            return _Closed(context) if by_name else layers.TCPLayer(context, ignore=True)
        if len(data) < 3 or (hello := _greeting(data)) is None:
            return None if len(data) < _GREETING else _Closed(context)
        if hello not in ("", host):
            return _Closed(context)
        outer = layers.ServerTLSLayer(context)
        outer.child_layer = layers.ClientTLSLayer(context)
        return outer


def _greeting(data: bytes) -> str | None:
    """Return the name in a ClientHello that we answer ourselves; None if more must arrive."""
    if not starts_like_tls_record(data):
        return _NO_NAME
    try:
        hello = parse_client_hello(data)
        if hello is None:
            return None
        return canonical(hello.sni) if hello.sni else ""
    except ValueError:
        return _NO_NAME


class _Closed(layer.Layer):  # type: ignore[misc]  # its types are in the image
    """Ends the connection."""

    def _handle_event(self, event: events.Event) -> Generator[commands.Command, Any, None]:
        if isinstance(event, events.Start):
            yield commands.CloseConnection(self.context.client)
            if self.context.server.connected:
                yield commands.CloseConnection(self.context.server)


class _Followed(layers.TCPLayer):  # type: ignore[misc]
    """Passes a tunnel on as long as its client speaks TLS to the host, which does not speak first."""

    def __init__(self, context: Any, watch: GreetingWatch, refused: Any) -> None:
        super().__init__(context, ignore=True)
        self._watch, self._refused = watch, refused

    def relay_messages(self, event: events.Event) -> Generator[commands.Command, Any, None]:
        """Pass on allowed data, or end the connection."""
        if isinstance(event, events.DataReceived):
            try:
                if event.connection == self.context.client:
                    event = events.DataReceived(event.connection, self._watch.feed(event.data))
                elif not self._watch.greeted:
                    raise NotThisHost("the host speaks first")
            except NotThisHost:
                self._refused()
                self._handle_event = self.done
                yield commands.CloseConnection(self.context.client)
                yield commands.CloseConnection(self.context.server)
                return
            if not event.data:
                return
        yield from super().relay_messages(event)
