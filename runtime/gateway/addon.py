"""The link between mitmproxy and our decisions: caller, destination, insertion and removal of values.

Every outgoing connection passes `server_connect`, whatever led to it; earlier hooks only give better answers.
Names are resolved there, and the proxy connects to those addresses and no other (`pinned`).
"""

from __future__ import annotations

import time
from contextvars import ContextVar

from mitmproxy import http
from mitmproxy.connection import Client
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from holdfast.runtime.gateway import destinations, strict_heads
from holdfast.runtime.gateway.destinations import Lookups, MachinesResolver, NoAnswer
from holdfast.runtime.gateway.exchange import Exchange
from holdfast.runtime.gateway.names import Address, canonical, parsed_address
from holdfast.runtime.gateway.refusal_log import Refusals
from holdfast.runtime.gateway.session_rules import Policies, SessionRules

BUFFERED = 1 << 20
"""Size limit of a body in which placeholders are replaced; a larger one passes unchanged."""
CALLS, ALL_CALLS = 128, 1024
"""Limits of simultaneous connections, per session and in all of this process."""
HOSTS = 2 * CALLS
"""Limit of a session's simultaneous connections to hosts: a call can have several, one after the other."""

_SILENT, _NO_ADDRESS = "the resolver does not answer", "the name does not have an address"
_PLAIN = 80

pinned: ContextVar[tuple[str, list[Address]] | None] = ContextVar("pinned", default=None)
"""The name to which this task connects, and its permitted addresses."""


class Gateway:
    """The hooks, by mitmproxy's names for them."""

    def __init__(self, policies: Policies, refusals: Refusals) -> None:
        self._policies, self._refusals = policies, refusals
        self._calls: dict[str, int] = {}
        self._hosts: dict[str, set[str]] = {}
        self._lookups = Lookups(MachinesResolver())

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
            _refuse(flow, 400, "holdfast: a tunnel within a tunnel is not allowed")
            return
        await self._judge(flow, tunnel=True)

    def http_connect_error(self, flow: http.HTTPFlow) -> None:
        """Explain in one line why a tunnel is not made."""
        if flow.response is not None and flow.response.status_code == 502 and "told" not in flow.metadata:
            why = flow.server_conn.error or "nothing answers"
            _refuse(flow, 502, f"holdfast: cannot connect to {flow.request.host}: {why}")

    async def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Check a request, in a tunnel to the host of a secret, or over plain HTTP."""
        tunnel = flow.client_conn.tls_established
        if not tunnel and flow.request.scheme != "http":
            _refuse(flow, 400, "holdfast: ask for a tunnel (CONNECT) to reach a host over TLS")
            return
        head = flow.request.data
        why = strict_heads.ambiguity(head.method, head.path, head.http_version, head.headers.fields)
        if why is not None:
            _refuse(flow, 400, f"holdfast: the request is malformed: {why}")
            return
        await self._judge(flow)
        policy = self.policy(flow.client_conn)
        if flow.response is not None or flow.error is not None or policy is None:
            return
        host = canonical(flow.request.host)
        if not _names_itself(flow.request, host):
            _refuse(flow, 421, f"holdfast: the request names a different host than {host}, its destination")
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
        """Decide on every outgoing connection, and pin it to the checked addresses."""
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
        try:
            found = await self._addresses(policy, host, port)
        except NoAnswer:
            server.error = _SILENT
            return
        usable = destinations.reachable(policy, host, port, found)
        if not usable:
            server.error = destinations.refusal(policy, host, port) if found else _NO_ADDRESS
            return
        # Counted last, without a pause before the connection is made: what failed before is not one.
        hosts = self._hosts.setdefault(data.client.peername[0], set())
        if len(hosts) >= HOSTS:
            server.error = "holdfast: this session has too many connections to hosts"
            return
        hosts.add(server.id)
        server.sni = host
        pinned.set((server.address[0], usable))

    def server_connect_error(self, data: ServerConnectionHookData) -> None:
        """Count one connection to a host less."""
        peer = data.client.peername[0]
        hosts = self._hosts.get(peer, set())
        hosts.discard(data.server.id)
        if not hosts:
            self._hosts.pop(peer, None)

    server_disconnected = server_connect_error

    def refused(self, policy: SessionRules, host: str, port: int) -> None:
        """Record that a session was refused a destination."""
        self._refusals.add(policy.session, host, port, time.time())

    async def _addresses(self, policy: SessionRules, host: str, port: int) -> list[Address]:
        """Return the present addresses of a host, if it can be reached at all: the home's own list, else
        the ones this machine finds.

        Raises:
            NoAnswer: the resolver does not answer.
        """
        if not destinations.worth_asking(policy, host, port):
            return []
        literal = parsed_address(host)
        if literal is not None:
            return [literal]
        listed = [address for name, address in policy.names if name == host]
        return listed or await self._lookups.addresses(policy.session, host)

    async def _judge(self, flow: http.HTTPFlow, tunnel: bool = False) -> None:
        """Answer a request whose destination is forbidden."""
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
        if tunnel and port == _PLAIN and destinations.by_name_alone(policy, host, port):
            self.refused(policy, host, port)
            _refuse(
                flow,
                403,
                (f"holdfast: a tunnel to port 80 is not allowed: ask for http://{host}/ without one"),
            )
            return
        try:
            found = await self._addresses(policy, host, port)
        except NoAnswer:
            _refuse(flow, 502, f"holdfast: cannot connect to {host}: {_SILENT}")
            return
        if destinations.reachable(policy, host, port, found):
            return
        if not found and destinations.named(policy, host, port):
            _refuse(flow, 502, f"holdfast: cannot connect to {host}: {_NO_ADDRESS}")
            return
        self.refused(policy, host, port)
        _refuse(flow, 403, destinations.refusal(policy, host, port))


def _put(flow: http.HTTPFlow, exchange: Exchange) -> None:
    """Insert values into the head of a request; remember them for the rest of it."""
    flow.metadata["exchange"] = exchange
    request = flow.request
    request.data.path = exchange.target(request.data.path)
    request.headers = http.Headers([(name, exchange.header(value)) for name, value in request.headers.fields])
    # Compressed data cannot be searched on its way back.
    request.headers["accept-encoding"] = "identity"
    request.headers.pop("te", None)


def _names_itself(request: http.Request, host: str) -> bool:
    """Return whether the request names its actual destination."""
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


def _refuse(flow: http.HTTPFlow, status: int, line: str) -> None:
    """Answer instead of the host; a request whose body is streamed, or has no known end, is cut off."""
    if flow.request.stream or "transfer-encoding" in flow.request.headers:
        flow.kill()
    else:
        flow.response = _answer(status, line)
        flow.metadata["told"] = True


def _answer(status: int, line: str) -> http.Response:
    body = line.encode("utf-8", "replace") + b"\n"
    return http.Response.make(
        status, body, {"content-type": "text/plain; charset=utf-8", "connection": "close"}
    )
