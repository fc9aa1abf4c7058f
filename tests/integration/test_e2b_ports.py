"""Ports of sandboxes through the server: HTTP and WebSockets, to servers with any behaviour."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.conftest import Cli
from tests.integration.control_wire import ControlWire, control_wire
from tests.integration.served import Served, serving
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.e2b.sandbox_access import SandboxTokens

PATIENCE = 60
MIB = 1 << 20
FIRST = 8000
PROGRAM = Path(__file__).parents[1] / "inside" / "port_server.py"
GARBAGE, ENDLESS_HEAD, SILENT, CUT, FLOOD = range(1, 6)
"""The servers behind the first one, which do not behave."""
LARGE = 32 << 20


def begin(session: Session) -> None:
    """Start the servers in a session."""
    session.files.write("/tmp/port_server.py", PROGRAM.read_bytes())
    session.detach(f"python3 /tmp/port_server.py {FIRST}", name="ports")
    probe = f"for p in {{{FIRST}..{FIRST + FLOOD}}}; do (exec 3<>/dev/tcp/127.0.0.1/$p) || exit 1; done"
    listening = polling.until(lambda: session.programs.run(["bash", "-c", probe]).ok, PATIENCE, 0.1)
    assert listening, session.job("ports").output()


class Ports:
    """A client of the ports of one sandbox."""

    def __init__(self, server: Served, sandbox: str, token: str | None = None) -> None:
        self.server, self.sandbox = server, sandbox
        traffic = SandboxTokens(server.token).traffic(sandbox) if token is None else token
        self.headers = {"e2b-traffic-access-token": traffic} if traffic else {}

    def host(self, port: int = FIRST) -> str:
        return f"{port}-{self.sandbox}.localhost:{self.server.port}"

    def ask(self, path: str = "/", method: str = "GET", port: int = FIRST, **more: Any) -> httpx.Response:
        headers = {"host": self.host(port)} | self.headers | more.pop("headers", {})
        with httpx.Client(base_url=self.server.url, trust_env=False, timeout=PATIENCE) as client:
            return client.request(method, path, headers=headers, **more)

    def socket(self, path: str = "/echo", **more: Any) -> ClientConnection:
        opened = socket.create_connection(("127.0.0.1", self.server.port))
        found: ClientConnection = connect(
            f"ws://{self.host()}{path}", sock=opened, additional_headers=self.headers, proxy=None, **more
        )
        return found


@pytest.fixture(scope="module")
def server(shared: Session, make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    begin(shared)
    with serving(make_cli(shared_home), shared_home) as found:
        yield found


@pytest.fixture(scope="module")
def ports(server: Served, shared: Session) -> Ports:
    return Ports(server, shared.id)


@pytest.fixture
def wire(server: Served) -> Iterator[ControlWire]:
    with control_wire(server) as found:
        yield found


def test_requests_of_each_kind(ports: Ports) -> None:
    for method in ("GET", "POST", "PUT", "DELETE"):
        answer = ports.ask("/a%20b?c=%2F", method, content=b"said" if method != "GET" else None)
        told = answer.json()
        assert (answer.status_code, told["method"], told["uri"]) == (200, method, "/a%20b?c=%2F")
        assert told["headers"]["host"] == ports.host()
        assert told["body"][0] == (0 if method == "GET" else 4)
    assert answer.headers["set-cookie"] == "a=1"
    assert ports.ask("/", "HEAD").status_code in (200, 405)


def test_headers_say_which_port_where_no_name_does(ports: Ports, server: Served) -> None:
    said = ports.headers | {"e2b-sandbox-id": ports.sandbox, "e2b-sandbox-port": str(FIRST)}
    answer = httpx.get(f"{server.url}/x", headers=said, trust_env=False, timeout=PATIENCE)
    assert answer.json()["headers"]["host"] == f"localhost:{FIRST}"


def test_large_bodies_both_ways(ports: Ports) -> None:
    assert ports.ask("/large").content == b"x" * LARGE
    pieces = [bytes([number]) * MIB for number in range(40)]
    told = ports.ask("/", "POST", content=iter(pieces)).json()
    assert told["body"] == [40 * MIB, hashlib.sha256(b"".join(pieces)).hexdigest()]


def test_an_answer_comes_while_it_is_made(ports: Ports, server: Served) -> None:
    with (
        httpx.Client(base_url=server.url, trust_env=False, timeout=PATIENCE) as client,
        client.stream("GET", "/slow", headers={"host": ports.host()} | ports.headers) as answer,
    ):
        assert next(answer.iter_lines()) == "first"


def test_websockets(ports: Ports) -> None:
    with ports.socket(subprotocols=["chat"], max_size=None) as opened:
        assert opened.subprotocol == "chat"
        for said in ("grüß Gott", b"\0\xff", "x" * MIB):
            opened.send(said)
            assert opened.recv(PATIENCE) == said
        opened.send("close")
        with pytest.raises(Exception, match="4001"):
            opened.recv(PATIENCE)
    with pytest.raises(InvalidStatus) as refused:
        ports.socket(origin="http://forbidden.example")
    assert refused.value.response.status_code == 403


def test_a_token_of_the_sandbox_or_the_servers_own_opens_its_ports(server: Served, shared: Session) -> None:
    """Unless its maker wanted it, no one else reaches them; of a session that `holdfast new` made as well.

    The server's own token is sent as everywhere, and does not reach the session; it is not a token of a
    sandbox.
    """
    tokens = SandboxTokens(server.token)
    for wrong in ("", "x", server.token, tokens.traffic("a" * 12), tokens.access("a" * 12)):
        answer = Ports(server, shared.id, wrong).ask()
        assert answer.status_code == 403
        assert "need its traffic access token" in answer.json()["message"]
        with pytest.raises(InvalidStatus) as refused:
            Ports(server, shared.id, wrong).socket()
        assert refused.value.response.status_code == 403
    assert Ports(server, shared.id, "").ask(headers={"x-access-token": tokens.access(shared.id)}).is_success
    told = Ports(server, shared.id, "").ask(headers=server.headers)
    assert told.is_success
    assert server.token not in told.text
    nearly = {"authorization": f"Bearer {server.token[:-1]}"}
    assert Ports(server, shared.id, "").ask(headers=nearly).status_code == 403
    both = [*server.headers.items(), ("authorization", "Bearer other")]
    twice = httpx.Headers([("host", Ports(server, shared.id, "").host()), *both])
    assert httpx.get(server.url, headers=twice, trust_env=False, timeout=PATIENCE).status_code == 401
    bearer = Ports(server, shared.id, "")
    with bearer.socket(subprotocols=["chat", f"bearer.{server.token}"]) as opened:
        assert opened.subprotocol == "chat"
        opened.send("hello")
        assert opened.recv(PATIENCE) == "hello"


def test_ports_are_public_if_that_was_asked_for(
    server: Served, wire: ControlWire, shared_hf: Holdfast
) -> None:
    """For this sandbox and its copies, and no longer than it is wanted."""
    made = wire.new(network={"allowPublicTraffic": True, "maskRequestHost": "localhost:${PORT}"})
    begin(shared_hf.session(made["sandboxID"]))
    path = f"/sandboxes/{made['sandboxID']}"
    assert wire.call("GET", path)["network"]["allowPublicTraffic"] is True
    everyone = Ports(server, made["sandboxID"], "")
    assert everyone.ask().json()["headers"]["host"] == f"localhost:{FIRST}"
    with everyone.socket() as opened:
        opened.send("hello")
        assert opened.recv(PATIENCE) == "hello"
    (copy,) = wire.call("POST", f"{path}/fork", {"timeout": 600}, 201)
    wire.made.append(copy["sandbox"]["sandboxID"])
    assert Ports(server, copy["sandbox"]["sandboxID"], "").ask().is_success
    wire.call("PUT", f"{path}/network", {"allowPublicTraffic": False}, 204)
    assert everyone.ask().status_code == 403
    assert Ports(server, made["sandboxID"], made["trafficAccessToken"]).ask().is_success


def test_unreachable_addresses_are_reported(ports: Ports, server: Served) -> None:
    closed = ports.ask(port=9)
    assert (closed.status_code, closed.json()["port"], closed.json()["code"]) == (502, 9, 502)
    assert "port is not open" in closed.json()["message"]
    unknown = Ports(server, "a" * 12, "").ask()
    assert unknown.status_code == 502
    assert "was not found" in unknown.json()["message"]
    assert ports.ask(port=0).status_code == ports.ask(port=70000).status_code == 400
    elsewhere = {"host": f"{FIRST}-{ports.sandbox}.example.org"}
    assert ports.ask(headers=elsewhere).status_code == 421


def test_a_page_of_a_sandbox_is_not_a_page_of_the_server(ports: Ports, server: Served) -> None:
    """Whatever its path: the name of a port leads to the session, which never sees the server's token."""
    for path in ("/v1/sessions", "/mcp", "/sandboxes", "/openapi.json", "/health", "/files"):
        told = ports.ask(path, headers=server.headers | {"x-api-key": f"e2b_{server.token}"}).json()
        assert told["uri"] == path
        assert server.token not in json.dumps(told)
        assert not {"x-api-key", "authorization", "e2b-traffic-access-token"} & told["headers"].keys()
    origin = {"origin": f"http://{ports.host()}"}
    answer = httpx.get(f"{server.url}/v1/sessions", headers=server.headers | origin, trust_env=False)
    assert answer.status_code == 403


def test_the_servers_own_ports_are_reached_by_name(ports: Ports, server: Served, shared: Session) -> None:
    """Where clients do not get one address for all, each port of a sandbox has its name."""
    access = {"x-access-token": SandboxTokens(server.token).access(shared.id)}
    shared.files.write("/tmp/named", b"by name")
    found = ports.ask("/files", port=49983, params={"path": "/tmp/named"}, headers=access)
    assert found.content == b"by name"
    assert (
        Ports(server, shared.id, "").ask("/files", port=49983, params={"path": "/tmp/named"}).status_code
        == 401
    )
    answer = ports.ask("/execute", "POST", port=49999, json={"code": "6 * 7"}, headers=access)
    assert '"text":"42"' in answer.text.replace(": ", ":")
    assert (
        Ports(server, shared.id, "").ask("/execute", "POST", port=49999, json={"code": "1"}).status_code
        == 401
    )


@pytest.mark.parametrize("kind", [GARBAGE, ENDLESS_HEAD])
def test_malformed_answers_are_errors_of_the_sandbox(ports: Ports, kind: int) -> None:
    answer = ports.ask(port=FIRST + kind)
    assert answer.status_code == 502
    assert answer.json()["message"].startswith("cannot read the answer")


def test_an_answer_that_is_cut_does_not_look_whole(ports: Ports) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        ports.ask(port=FIRST + CUT)


def test_a_session_that_floods_or_is_silent_delays_no_one(ports: Ports, server: Served) -> None:
    """Its share of connections waits, and one more is refused; memory and other callers do not notice."""
    before, opened = server.resident(), []
    head = "".join(f"{name}: {text}\r\n" for name, text in ports.headers.items())
    try:
        for number in range(64):
            port = FIRST + (FLOOD if number % 2 else SILENT)
            each = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
            each.sendall(f"GET / HTTP/1.1\r\nHost: {ports.host(port)}\r\n{head}\r\n".encode())
            opened.append(each)
        assert polling.until(lambda: ports.ask().status_code == 503, PATIENCE, 0.05)
        assert ports.ask().headers["retry-after"] == "1"
        assert server.client.get("/health").status_code == 200
        assert server.get("/v1/sessions")
        assert server.resident() - before < 96 * MIB
    finally:
        for each in opened:
            each.close()
    assert polling.until(lambda: ports.ask().status_code == 200, PATIENCE, 0.05)


def test_a_capture_cuts_traffic_and_copies_answer_for_themselves(
    ports: Ports, server: Served, shared: Session
) -> None:
    """A request that begins during it waits; the token of the captured session is not the copy's."""
    with ports.socket() as before:
        before.send("here")
        assert before.recv(PATIENCE) == "here"
        answers: list[int] = []
        over = threading.Event()

        def keep_asking() -> None:
            while not over.is_set():
                answers.append(ports.ask("/").status_code)

        asking = threading.Thread(target=keep_asking)
        asking.start()
        try:
            taken = shared.snapshot()
        finally:
            over.set()
            asking.join()
        assert set(answers) <= {200, 502}
        assert ports.ask().is_success
        with pytest.raises(Exception, match="1011"):
            before.recv(PATIENCE)
    copy = taken.restore()
    try:
        own = Ports(server, copy.id)
        assert own.ask().json()["headers"]["host"] == own.host()
        stolen = Ports(server, copy.id, ports.headers["e2b-traffic-access-token"])
        assert stolen.ask().status_code == 403
    finally:
        copy.remove()
        taken.remove()


def test_a_request_resumes_a_sandbox_that_wanted_it(
    server: Served, wire: ControlWire, shared_hf: Holdfast
) -> None:
    made = wire.new(timeout=600, autoPause=True, autoResume={"enabled": True})
    begin(shared_hf.session(made["sandboxID"]))
    wire.call("POST", f"/sandboxes/{made['sandboxID']}/pause", {}, 204)
    assert Ports(server, made["sandboxID"]).ask().is_success
    other = wire.new(timeout=600)
    wire.call("POST", f"/sandboxes/{other['sandboxID']}/pause", {}, 204)
    paused = Ports(server, other["sandboxID"]).ask()
    assert (paused.status_code, "was not found" in paused.json()["message"]) == (502, True)


def test_nothing_of_the_host_is_reached(ports: Ports, server: Served) -> None:
    """Its own loopback least of all: the port of the server is not a port of the session."""
    assert ports.ask(port=server.port).status_code == 502
