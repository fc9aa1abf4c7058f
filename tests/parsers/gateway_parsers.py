"""The gateway's reader of HTTP: input of a session and its hosts, with our bounds and our decisions.

Only the image of the gateway has mitmproxy: `python -m tests.parsers.gateway_parsers SEED ROUNDS` runs
there. No bytes leave: a session's connection and the connections to its hosts are lists, and each command
of mitmproxy is obeyed immediately, as its own loop would.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h11
from mitmproxy import connection, options
from mitmproxy.addons import core, disable_h2c, proxyserver
from mitmproxy.master import Master
from mitmproxy.proxy import commands, events, layers, mode_specs, server_hooks
from mitmproxy.proxy.context import Context
from tests.parsers.altered_inputs import pieces
from tests.parsers.parser_under_test import ParserUnderTest

from holdfast.runtime.gateway import protocol_layers, session_process
from holdfast.runtime.gateway.addon import BUFFERED, Gateway
from holdfast.runtime.gateway.names import parsed_address
from holdfast.runtime.gateway.session_rules import Policies, Secret, SecretHost, SessionRules

HOST, VALUE = "example.com", "v4lue-that-no-session-has"
SECRET = Secret("TOKEN", "holdfast-secret-" + "0" * 32, (SecretHost("http", HOST, 80),), VALUE)
ADDRESS = parsed_address("198.51.100.7")
assert ADDRESS is not None
RULES = SessionRules("work", secrets=(SECRET,), names=((HOST, ADDRESS), ("other.example", ADDRESS)))
PLACE = SECRET.placeholder.encode()
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
"""What a host answers to each request, if nothing else is tried."""


class _Rules(Policies):
    """The rules of the only session."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))

    def of(self, peer: str) -> SessionRules | None:
        """They are the same for every address."""
        return RULES


class _Refusals:
    """Counts nothing."""

    def add(self, *_: object) -> None:
        """Leave it."""


class Reader:
    """mitmproxy with our addon, for one connection of a session at a time."""

    def __init__(self) -> None:
        session_process._narrow_http()
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        chosen = options.Options(mode=["regular"], server=False, confdir="/tmp", http2=False)
        self.master = Master(chosen, self.loop)
        self.gateway = Gateway(_Rules(), _Refusals())  # type: ignore[arg-type]
        self.master.addons.add(
            core.Core(),
            self.gateway,
            protocol_layers.ProtocolLayers(self.gateway),
            disable_h2c.DisableH2C(),
            proxyserver.Proxyserver(),
        )
        chosen.update(
            stream_large_bodies=str(BUFFERED),
            upstream_cert=False,
            validate_inbound_headers=True,
            connection_strategy="eager",
            websocket=False,
        )

    def calls(self) -> Calls:
        """Return a new connection of the session."""
        return Calls(self)


class Calls:
    """One connection of the session: the data sent to it and to hosts, and the judgements."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.client = connection.Client(
            peername=("198.51.100.1", 5),
            sockname=("198.51.100.2", 6),
            timestamp_start=0.0,
            proxy_mode=mode_specs.ProxyMode.parse("regular"),
            state=connection.ConnectionState.OPEN,
        )
        context = Context(self.client, reader.master.options)
        self._layer = layers.modes.HttpProxy(context)
        self.answers = bytearray()
        self.hosts: dict[Any, bytearray] = {}
        self.judged: list[Any] = []
        self.tunnel = False
        self._waiting: deque[events.Event] = deque()
        self.tell(events.Start())

    def tell(self, event: events.Event) -> None:
        """Have an event handled, and all that follows from it."""
        self._waiting.append(event)
        while self._waiting:
            handled = self._waiting.popleft()
            try:
                for command in self._layer.handle_event(handled):
                    self._obey(command)
            except AssertionError:
                # mitmproxy does not expect all ends of what it has ended itself; its loop logs that.
                if not isinstance(handled, events.ConnectionClosed):
                    raise

    def says(self, data: bytes) -> None:
        """The session sends something, unless its connection is closed."""
        if self.client.state & connection.ConnectionState.CAN_READ:
            self.tell(events.DataReceived(self.client, data))

    def answered(self, host: Any, data: bytes) -> None:
        """A host sends something, unless its connection is closed."""
        if host.state & connection.ConnectionState.CAN_READ:
            self.tell(events.DataReceived(host, data))

    def ends(self, one: Any) -> None:
        """The other side ends a connection."""
        if one.state & connection.ConnectionState.CAN_READ:
            one.state &= ~connection.ConnectionState.CAN_READ
            self.tell(events.ConnectionClosed(one))

    def close(self) -> None:
        """Both sides end what is left; the gateway counts no connection of it any more."""
        for one in (*self.hosts, self.client):
            self.ends(one)
        for one in self.hosts:
            data = server_hooks.ServerConnectionHookData(client=self.client, server=one)
            self._reader.gateway.server_disconnected(data)

    def unfinished(self) -> int:
        """The kept bytes of any connection that are not part of a message yet."""
        return max((len(one.buf) for one in self._connections()), default=0)

    def _connections(self) -> Iterator[Any]:
        for layer in self.client_layers():
            for one in getattr(layer, "connections", {}).values():
                if hasattr(one, "buf"):
                    yield one

    def client_layers(self) -> list[Any]:
        """The layers of this connection."""
        return list(self._layer.context.layers)

    def _obey(self, command: commands.Command) -> None:
        match command:
            case commands.StartHook():
                self._ask(command)
            case commands.OpenConnection():
                self._open(command)
            case commands.SendData():
                if command.connection is self.client:
                    self.answers += command.data
                else:
                    self.hosts[command.connection] += command.data
            case commands.CloseTcpConnection(half_close=True):
                command.connection.state &= ~connection.ConnectionState.CAN_WRITE
            case commands.CloseConnection():
                if command.connection.state is not connection.ConnectionState.CLOSED:
                    command.connection.state = connection.ConnectionState.CLOSED
                    self._waiting.append(events.ConnectionClosed(command.connection))

    def _ask(self, hook: commands.StartHook) -> None:
        run = self._reader.loop.run_until_complete
        run(self._reader.master.addons.handle_lifecycle(hook))
        flow = getattr(hook, "flow", None)
        if flow is not None and flow.response is None and flow.error is None:
            if hook.name == "requestheaders":
                self.judged.append((flow.request.method, flow.request.host))
            self.tunnel |= hook.name == "http_connect"
        if hook.blocking:
            self._waiting.append(events.HookCompleted(hook))

    def _open(self, command: commands.OpenConnection) -> None:
        data = server_hooks.ServerConnectionHookData(client=self.client, server=command.connection)
        self._reader.loop.run_until_complete(self._reader.gateway.server_connect(data))
        error = command.connection.error
        if error is None:
            command.connection.state = connection.ConnectionState.OPEN
            command.connection.peername = (str(ADDRESS), 80)
            self.hosts[command.connection] = bytearray()
        self._waiting.append(
            events.OpenConnectionCompleted(command, None if error is None else f"Connection killed: {error}")
        )


READER = Reader()
_ASCII = bytes(range(128)) + b"x" * 128


def requests_of(data: bytes) -> list[h11.Request]:
    """Return the requests that a strict host reads; the last one can be incomplete."""
    data = data.translate(_ASCII)  # hosts take other letters in a target as they are
    host, found = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20), []
    host.receive_data(data)
    while True:
        event = host.next_event()
        if isinstance(event, h11.Request):
            found.append(event)
        if event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
            if host.their_state is not h11.DONE or host.our_state is h11.MUST_CLOSE or event is h11.NEED_DATA:
                assert host.their_state is not h11.MUST_CLOSE or not host.trailing_data[0], "more than asked"
                return found
            host.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
            host.send(h11.EndOfMessage())
            if host.our_state is h11.MUST_CLOSE:
                assert not host.trailing_data[0], "more than asked"
                return found
            host.start_next_cycle()


def _requests(data: bytes, dice: random.Random) -> None:
    """Hosts get the requests that were judged, and no other; each names them."""
    calls = READER.calls()
    given: dict[Any, int] = {}
    for piece in pieces(dice, data):
        calls.says(piece)
        assert calls.unfinished() <= session_process.UNFINISHED
        for host, got in list(calls.hosts.items()):
            if len(got) > given.get(host, 0):
                given[host] = len(got)
                calls.answered(host, OK)
    calls.close()
    _check(calls)


def _check(calls: Calls) -> None:
    assert VALUE.encode() not in calls.answers
    if calls.tunnel:  # what is in it is between the session and its host
        assert not any(VALUE.encode() in got for got in calls.hosts.values())
        return
    count = 0
    for host, got in calls.hosts.items():
        for request in requests_of(bytes(got)):
            count += 1
            names = [value for name, value in request.headers if name == b"host"]
            assert len(names) == 1, names
            assert names[0].decode().partition(":")[0].lower().rstrip(".") == host.address[0].lower().rstrip(
                "."
            ), names
    assert count <= len(calls.judged), (count, calls.judged)


def _answers(data: bytes, dice: random.Random) -> None:
    """Whatever a host answers, the session gets no value, and at most the size of a head is kept."""
    calls = READER.calls()
    ask = b"GET http://%s/?k=%s HTTP/1.1\r\nHost: %s\r\n\r\n" % (HOST.encode(), PLACE, HOST.encode())
    calls.says(ask)
    (host,) = calls.hosts
    assert VALUE.encode() in calls.hosts[host]
    for piece in pieces(dice, data):
        calls.answered(host, piece)
        assert calls.unfinished() <= session_process.UNFINISHED
    calls.ends(host)
    calls.says(ask)
    calls.close()
    if (
        b" 101 " not in calls.answers.partition(b"\r\n")[0]
    ):  # what follows a change of protocol is not searched
        assert VALUE.encode() not in calls.answers


_HEAD = b"POST http://example.com/a?k=%s HTTP/1.1\r\nHost: example.com\r\n" % PLACE
_REQUEST = _HEAD + b"Authorization: Bearer %s\r\nContent-Length: 5\r\n\r\nhello" % PLACE
_CHUNKED = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\n\r\n"
_GET = b"GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n"
_CONNECT = b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"

PARSERS = (
    ParserUnderTest(
        "requests to the gateway",
        (_REQUEST, _CHUNKED + _GET, _GET + _REQUEST + _GET, _CONNECT),
        _requests,
        (),
        (
            *(
                b"\r\n",
                b"\n",
                b"\r",
                b"\0",
                b"\x0b",
                b"\t",
                b" \r\n ",
                b"0\r\n\r\n",
                b"ffffffffffffffff\r\n",
                b"-1\r\n",
            ),
            *(b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n"),
            *(
                b"Transfer-Encoding: xchunked\r\n",
                b"Transfer-Encoding: identity\r\n",
                b"Transfer-Encoding : chunked\r\n",
            ),
            *(
                b"Host: other.example\r\n",
                b"Expect: 100-continue\r\n",
                b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
            ),
            *(
                b"HTTP/1.0",
                b"HTTP/2.0",
                b"HTTP/0.9",
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                b"http://u@other.example:80/",
            ),
            *(b"CONNECT ", b"GET ", _GET, PLACE, b"https://", b"example.com.", b"[::1]", b"X: y\r\n z\r\n"),
        ),
    ),
    ParserUnderTest(
        "answers to the gateway",
        (
            OK,
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx: y\r\n\r\n",
            b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK,
            b"HTTP/1.1 200 OK\r\nX: %s\r\n\r\n%s" % ((VALUE.encode(),) * 2),
            b"HTTP/1.1 101 Switched\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x81\x02ok",
        ),
        _answers,
        (),
        (
            *(
                b"\r\n",
                b"\n",
                b"\r",
                b"\0",
                b"0\r\n\r\n",
                b"ffffffff\r\n",
                b"HTTP/1.1 100 Continue\r\n\r\n",
                b"HTTP/1.1 101 X\r\n\r\n",
            ),
            *(
                b"Content-Length: 5\r\n",
                b"Content-Length: 99999999999999999999\r\n",
                b"Transfer-Encoding: chunked\r\n",
            ),
            *(
                b"HTTP/1.1 204 No\r\n",
                b"HTTP/1.1 304 No\r\n",
                b"HTTP/1.0 ",
                b" 999 ",
                b"Set-Cookie: ",
                OK,
                VALUE.encode(),
            ),
        ),
    ),
)


def main(seed: str, rounds: str) -> None:
    """Try each, as `test_parsers` does with the host's parsers."""
    for parser in PARSERS:
        dice = random.Random(f"{seed} {parser.name}")
        parser.try_altered(dice, int(rounds))
        parser.try_long(dice, parser.words)
    print("all was read or refused")  # noqa: T201 - for the caller


if __name__ == "__main__":
    main(*sys.argv[1:])
