"""The link between mitmproxy and our decisions: caller, destination, insertion and removal of values.

Every outgoing connection passes `server_connect`, whatever led to it; earlier hooks only give better answers.
Names are resolved there, and the proxy connects to those addresses and no other (`pinned`).
"""

from __future__ import annotations

import asyncio
import socket
import time
from contextvars import ContextVar

from mitmproxy import http
from mitmproxy.connection import Client
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from holdfast.runtime.gateway import destinations
from holdfast.runtime.gateway.exchange import Exchange
from holdfast.runtime.gateway.names import Address, canonical, parsed_address
from holdfast.runtime.gateway.policies import Policies
from holdfast.runtime.gateway.refusal_log import Refusals
from holdfast.runtime.gateway.session_rules import SessionRules

BUFFERED = 1 << 20
"""Size limit of a body in which placeholders are replaced; a larger one passes unchanged."""
CALLS, ALL_CALLS = 128, 1024
"""Limits of simultaneous connections, per session and in total."""
_LOOKUP_SECONDS = 20.0

pinned: ContextVar[tuple[str, list[Address]] | None] = ContextVar("pinned", default=None)
"""The name to which this task connects, and its permitted addresses."""


class Gateway:
    """The hooks, by mitmproxy's names for them."""

    def __init__(self, policies: Policies, refusals: Refusals) -> None:
        self._policies, self._refusals = policies, refusals
        self._calls: dict[str, int] = {}

    def policy(self, client: Client) -> SessionRules | None:
        """Return the policy of the calling session."""
        return self._policies.of(client.peername[0])

    def client_connected(self, client: Client) -> None:
        """Refuse connections over the limit before anything is read."""
        peer = client.peername[0]
        self._calls[peer] = self._calls.get(peer, 0) + 1
        if self._calls[peer] > CALLS or sum(self._calls.values()) > ALL_CALLS:
            client.error = "too many connections"  # its end is reported as well, like any other's

    def client_disconnected(self, client: Client) -> None:
        """Count one connection less."""
        peer = client.peername[0]
        left = self._calls.get(peer, 1) - 1
        if left > 0:
            self._calls[peer] = left
        else:
            self._calls.pop(peer, None)

    async def http_connect(self, flow: http.HTTPFlow) -> None:
        """Check a request for a tunnel."""
        if flow.client_conn.tls_established:
            _refuse(flow, 400, "holdfast: no tunnel within a tunnel")
            return
        await self._judge(flow)

    def http_connect_error(self, flow: http.HTTPFlow) -> None:
        """Explain in one line why a tunnel is not made."""
        if flow.response is not None and flow.response.status_code == 502:
            why = flow.server_conn.error or "nothing answers"
            _refuse(flow, 502, f"holdfast: cannot connect to {flow.request.host}: {why}")

    async def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Check a request, in a tunnel to the host of a secret, or over plain HTTP."""
        tunnel = flow.client_conn.tls_established
        if not tunnel and flow.request.scheme != "http":
            _refuse(flow, 400, "holdfast: ask for a tunnel (CONNECT) to reach a host over TLS")
            return
        await self._judge(flow)
        policy = self.policy(flow.client_conn)
        if flow.response is not None or flow.error is not None or policy is None:
            return
        host = canonical(flow.request.host)
        if not _names_itself(flow.request, host):
            _refuse(flow, 421, f"holdfast: the request names another host than {host}, its destination")
            return
        given = policy.secrets_for(flow.request.scheme, host, flow.request.port)
        if given:
            _put(flow, Exchange(given))
        else:
            flow.request.stream = True

    def request(self, flow: http.HTTPFlow) -> None:
        """Put values into the body, which is here as a whole unless it is streamed."""
        exchange = flow.metadata.get("exchange")
        content = flow.request.raw_content
        if exchange is not None and flow.response is None and content:
            flow.request.raw_content = exchange.body(content, flow.request.headers.get("content-type", ""))
            if "content-length" in flow.request.headers:
                flow.request.headers["content-length"] = str(len(flow.request.raw_content))

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Put placeholders into the headers; the body is processed as it passes."""
        exchange = flow.metadata.get("exchange")
        if flow.response is None:
            return
        response = flow.response
        if exchange is None:
            response.stream = True
            return
        response.data.reason = exchange.back(response.data.reason)
        response.headers = http.Headers(
            [(exchange.back(name), exchange.back(value)) for name, value in response.headers.fields]
        )
        length = response.headers.get("content-length", "")
        if length.isdecimal() and int(length) <= BUFFERED:
            response.stream = False
        elif response.status_code != 101:
            response.stream = exchange.stream(same_length=bool(length))

    def response(self, flow: http.HTTPFlow) -> None:
        """Put placeholders into the body, which is here as a whole unless it is streamed."""
        exchange = flow.metadata.get("exchange")
        if exchange is not None and flow.response is not None and flow.response.raw_content:
            content = exchange.back(flow.response.raw_content)
            if content != flow.response.raw_content:
                flow.response.raw_content = content
                flow.response.headers["content-length"] = str(len(content))

    async def server_connect(self, data: ServerConnectionHookData) -> None:
        """Decide on every outgoing connection, and pin it to the addresses that were judged."""
        pinned.set(None)
        server = data.server
        policy = self.policy(data.client)
        if policy is None or server.address is None or server.transport_protocol != "tcp":
            server.error = "holdfast: not a session of this gateway"
            return
        try:
            host = canonical(server.address[0])
        except ValueError as error:
            server.error = f"holdfast: {error}"
            return
        port = server.address[1]
        found = await _addresses(policy, host) if destinations.worth_asking(policy, host, port) else []
        usable = destinations.reachable(policy, host, server.address[1], found)
        if not usable:
            server.error = (
                destinations.refusal(policy, host, server.address[1]) if found else "the name has no address"
            )
            return
        server.sni = host
        pinned.set((server.address[0], usable))

    def server_connected(self, data: ServerConnectionHookData) -> None:
        """Stop a connection to an address that was not judged, before anything is sent."""
        kept = pinned.get()
        peer = parsed_address(data.server.peername[0]) if data.server.peername else None
        if kept is None or peer not in kept[1]:
            raise AssertionError("connected to an address that was not judged")

    async def _judge(self, flow: http.HTTPFlow) -> None:
        """Answer a request that may not go to its destination."""
        policy = self.policy(flow.client_conn)
        if policy is None:
            _refuse(flow, 403, "holdfast: not a session of this gateway")
            return
        port = flow.request.port
        try:
            host = canonical(flow.request.host)
        except ValueError as error:
            _refuse(flow, 400, f"holdfast: cannot connect there: {error}")
            return
        found = await _addresses(policy, host) if destinations.worth_asking(policy, host, port) else []
        if destinations.reachable(policy, host, port, found):
            return
        if not found and destinations.named(policy, host, port):
            _refuse(flow, 502, f"holdfast: cannot connect to {host}: the name has no address")
            return
        self._refusals.add(policy.session, host, port, time.time())
        _refuse(flow, 403, destinations.refusal(policy, host, port))


def _put(flow: http.HTTPFlow, exchange: Exchange) -> None:
    """Insert values into the head of a request; remember for the rest what they are."""
    flow.metadata["exchange"] = exchange
    request = flow.request
    request.data.path = exchange.target(request.data.path)
    request.headers = http.Headers([(name, exchange.header(value)) for name, value in request.headers.fields])
    # Compressed data cannot be searched on its way back.
    request.headers["accept-encoding"] = "identity"
    request.headers.pop("te", None)


def _names_itself(request: http.Request, host: str) -> bool:
    """Return whether the destination that a request names is where it goes."""
    names = [value for name, value in request.headers.fields if name.lower() == b"host"]
    names += [request.data.authority] if request.data.authority else []
    return bool(names) and all(_host_of(value) == (host, True) for value in names)


def _host_of(value: bytes) -> tuple[str, bool]:
    text = value.decode("ascii", "replace").strip()
    head, colon, port = text.rpartition(":")
    bare = head if colon and port.isdecimal() else text
    try:
        return canonical(bare), True
    except ValueError:
        return "", False


async def _addresses(policy: SessionRules, host: str) -> list[Address]:
    """Return the addresses of a host now: those of the home's own list, else those this machine finds."""
    literal = parsed_address(host)
    if literal is not None:
        return [literal]
    listed = [address for name, address in policy.names if name == host]
    if listed:
        return listed
    try:
        found = await asyncio.wait_for(
            asyncio.get_running_loop().run_in_executor(None, _look_up, host), _LOOKUP_SECONDS
        )
    except (OSError, TimeoutError):
        return []
    addresses = [parsed_address(text) for text in found]
    return list(dict.fromkeys(one for one in addresses if one is not None))


def _look_up(host: str) -> list[str]:
    return [str(one[4][0]) for one in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


def _refuse(flow: http.HTTPFlow, status: int, line: str) -> None:
    """Answer instead of the host; a request whose body is streamed, or has no known end, is cut off."""
    if flow.request.stream or "transfer-encoding" in flow.request.headers:
        flow.kill()
    else:
        flow.response = _answer(status, line)


def _answer(status: int, line: str) -> http.Response:
    body = line.encode("utf-8", "replace") + b"\n"
    return http.Response.make(
        status, body, {"content-type": "text/plain; charset=utf-8", "connection": "close"}
    )
