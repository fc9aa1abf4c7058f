"""The choice of a connection's protocol: as little as possible is inspected.

A tunnel is opened only if it is TLS to a host that receives a secret; all other tunnels pass unchanged. The
name in a TLS greeting must be that of the tunnel, where it matters which host that is.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from mitmproxy.net.tls import starts_like_tls_record
from mitmproxy.proxy import commands, events, layer, layers
from mitmproxy.proxy.layers import modes
from mitmproxy.proxy.layers.http import HttpLayer, HTTPMode, _http1
from mitmproxy.proxy.layers.tls import parse_client_hello

from holdfast.runtime.gateway.addon import Gateway
from holdfast.runtime.gateway.names import canonical

HEAD = 64 << 10
"""Size limit of the head of a request."""
_SAYABLE = ("Connection killed", "Certificate verify failed", "connection cancelled", "[Errno")
_GREETING = 64 << 10


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
        if not data:
            return layers.TCPLayer(context, ignore=True) if asked.data_server() else None
        policy = self._gateway.policy(context.client)
        if policy is None or context.server.address is None:
            return _Closed(context)
        host, port = canonical(context.server.address[0]), context.server.address[1]
        given = policy.secrets_for("https", host, port)
        if (given or policy.only_domains) and data[0] == 0x16:
            if len(data) < 3 or (hello := _greeting(data)) is None:
                return None if len(data) < _GREETING else _Closed(context)
            if hello is not False and hello not in ("", host):
                return _Closed(context)
            if given:
                outer = layers.ServerTLSLayer(context)
                outer.child_layer = layers.ClientTLSLayer(context)
                return outer
        return layers.TCPLayer(context, ignore=True)


def _greeting(data: bytes) -> str | bool | None:
    """Return the name in a ClientHello, or ""; None if more must arrive; False if it is not a ClientHello."""
    if not starts_like_tls_record(data):
        return False
    try:
        hello = parse_client_hello(data)
        if hello is None:
            return None
        return canonical(hello.sni) if hello.sni else ""
    except ValueError:
        return False


class _Closed(layer.Layer):  # type: ignore[misc]  # its types are in the image
    """Ends the connection."""

    def _handle_event(self, event: events.Event) -> Generator[commands.Command, Any, None]:
        if isinstance(event, events.Start):
            yield commands.CloseConnection(self.context.client)
            if self.context.server.connected:
                yield commands.CloseConnection(self.context.server)


def narrow() -> None:
    """Limit the head of a request, for which mitmproxy would wait however long it gets, and its error
    messages.

    mitmproxy's message about a response that it cannot parse contains the response, and with it what was
    sent.
    """
    made = _http1.make_error_response

    def brief(status: int, message: str = "") -> bytes:
        known = message.startswith(_SAYABLE)
        text = message if known else "the request, or the host's response, is malformed"
        return bytes(made(status, f"holdfast: {text}"))

    _http1.make_error_response = brief
    unbound = _http1.Http1Server.read_headers

    def bounded(self: Any, event: events.ConnectionEvent) -> Generator[commands.Command, Any, None]:
        if (
            isinstance(event, events.DataReceived)
            and len(self.buf) > HEAD
            and b"\r\n\r\n" not in bytes(self.buf)[:HEAD]
        ):
            yield commands.SendData(self.conn, b"HTTP/1.1 431 Too Large\r\nConnection: close\r\n\r\n")
            yield commands.CloseConnection(self.conn)
            return
        yield from unbound(self, event)

    _http1.Http1Server.read_headers = bounded
