"""The shipped configurations of nginx and Caddy, in front of servers that record what they are asked."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.machines.caddy import Caddy
from tests.machines.nginx import Nginx

TOKEN = "the token of the nodes"


class Asked(ThreadingHTTPServer):
    """A node that says where requests go, and records what it is asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.leads_to = ""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        """Its host and port."""
        return f"127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Asked

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {key.lower(): value for key, value in self.headers.items()}
        self.server.requests.append((self.command, self.path, headers, body))
        self.send_response(200)
        if self.path == "/v1/route" and self.server.leads_to:
            self.send_header("Holdfast-Node", self.server.leads_to)
        self.send_header("content-length", "4")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(b"done")

    do_GET = do_POST = _answer  # noqa: N815 - the library's names

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def nodes() -> Iterator[tuple[Asked, Asked]]:
    made = (Asked(), Asked())
    made[0].leads_to = f"http://{made[1].address}"
    yield made
    for each in made:
        each.shutdown()
        each.server_close()


PROXIES: dict[str, type[Nginx | Caddy]] = {"nginx": Nginx, "caddy": Caddy}


@pytest.fixture(params=PROXIES)
def client(
    request: pytest.FixtureRequest, nodes: tuple[Asked, Asked], tmp_path: Path
) -> Iterator[httpx.Client]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (
        PROXIES[str(request.param)](
            tmp_path / "proxy", port, [nodes[0].address, "127.0.0.1:1"], TOKEN
        ) as proxy,
        httpx.Client(base_url=proxy.url, trust_env=False) as made,
    ):
        yield made


CREDENTIALS = {"authorization": "Bearer mine", "cookie": "a=b", "x-api-key": "mine", "x-access-token": "mine"}


def test_the_question_for_the_way_has_no_credential_of_the_client(
    nodes: tuple[Asked, Asked], client: httpx.Client
) -> None:
    """Nor its query or body; the request itself arrives whole. One of the nodes does not answer."""
    asked = {**CREDENTIALS, "e2b-sandbox-id": "abc", "holdfast-node": "http://127.0.0.1:9"}
    for _ in range(3):
        answer = client.post("/v1/sessions/work/exec?token=mine", content=b"the body", headers=asked)
        assert (answer.status_code, answer.text) == (200, "done")
    for method, path, headers, body in nodes[0].requests:
        assert (method, path, body) == ("GET", "/v1/route", b"")
        assert headers["authorization"] == f"Bearer {TOKEN}"
        assert not {"cookie", "x-api-key", "x-access-token", "e2b-sandbox-id"} & headers.keys()
        assert "mine" not in headers["authorization"]
        assert headers["x-original-uri"] == "/v1/sessions/work/exec?token=mine"
        assert headers["x-original-sandbox"] == "abc"
    for method, path, headers, body in nodes[1].requests:
        assert (method, path, body) == ("POST", "/v1/sessions/work/exec?token=mine", b"the body")
        assert CREDENTIALS.items() <= headers.items()
        assert headers["holdfast-routed"] == "1"
        assert "holdfast-node" not in headers
    assert 1 <= len(nodes[0].requests) <= len(nodes[1].requests) == 3


def test_nginx_keeps_the_way_for_a_second(nodes: tuple[Asked, Asked], tmp_path: Path) -> None:
    """Of many requests in a row, a few ask; another session has another way."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (
        Nginx(tmp_path / "proxy", port, [nodes[0].address], TOKEN) as proxy,
        httpx.Client(base_url=proxy.url, trust_env=False) as client,
    ):
        while len(nodes[1].requests) < 100 or len(nodes[0].requests) == len(nodes[1].requests):
            assert len(nodes[1].requests) < 1000, "each of them asked"
            assert client.get("/v1/sessions/work").status_code == 200
        asked = len(nodes[0].requests)
        client.get("/v1/sessions/other")
        assert nodes[0].requests[-1][2]["x-original-uri"] == "/v1/sessions/other"
        assert len(nodes[0].requests) > asked


@pytest.mark.parametrize(
    "leads_to", ["", "http://127.0.0.1:1", "ftp://127.0.0.1:9"], ids=["no", "dead", "odd"]
)
def test_a_client_is_asked_to_come_again_while_there_is_no_way(
    nodes: tuple[Asked, Asked], client: httpx.Client, leads_to: str
) -> None:
    """A way that the client names itself counts for nothing. A node always says a way, if only its own."""
    nodes[0].leads_to = leads_to
    named = {"holdfast-node": f"http://{nodes[1].address}"}
    answer = client.get("/v1/sessions/work", headers=named)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert answer.json()["error"]["code"] == "unavailable"
    assert nodes[1].requests == []
