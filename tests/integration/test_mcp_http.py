"""Agents over HTTP: for callers with the token, many in parallel, and with bounded harm from all others."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.integration.conftest import Cli

from holdfast.base import polling
from holdfast.runtime.api.controller import Holdfast

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "sessions", "arguments": {}}}
JSON = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


class Server:
    """The server as a process of its own."""

    def __init__(self, url: str, token: str, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self.token = token
        self.process = process

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2].partition("/")[0])

    def post(self, **headers: str) -> int:
        with httpx2.Client(timeout=60, trust_env=False) as client:
            return client.post(self.url, json=CALL, headers=JSON | headers).status_code

    @contextmanager
    def ended(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(60) in (0, 143)


@pytest.fixture
def server(hf: Holdfast, cli: Cli) -> Iterator[Server]:
    with cli.start("mcp", "--http", "0", "--session", "work", stdout=subprocess.PIPE) as process:
        assert process.stdout
        told = process.stdout.readline().decode()
        url = re.fullmatch(r"serving (http://127\.0\.0\.1:\d+/mcp)\n", told)
        assert url, told
        file = hf.home.root / "mcp-token"
        assert polling.until(file.exists, 60)
        found = Server(url[1], file.read_text().strip(), process)
        with found.ended():
            yield found


async def ask(server: Server, tool: str, mode: Any = "auto", **arguments: Any) -> str:
    headers = {"Authorization": f"Bearer {server.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http,
        Client(streamable_http_client(server.url, http_client=http), mode=mode) as client,
    ):
        result = await client.call_tool(tool, arguments)
        return str(result.content[0].text)  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.thorough)])
def test_clients_share_sessions_and_nothing_waits_for_another(server: Server, mode: str) -> None:
    async def together() -> None:
        found: dict[str, str] = {}

        async def one(name: str, tool: str, **arguments: Any) -> None:
            found[name] = await ask(server, tool, mode, **arguments)

        assert "hi\n[exit 0" in await ask(server, "run", mode, command="echo hi")
        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(partial(one, f"sleep {number}", "run", command=f"sleep 2{number}", wait=3))
            group.start_soon(partial(one, "cell", "cell", code="6*7"))
        assert found["cell"].startswith("42\n")
        waiting = [text for name, text in found.items() if name.startswith("sleep")]
        assert sum("still runs after 3 s" in text for text in waiting) == 1
        assert sum("is running in the shell" in text for text in waiting) == 3

    anyio.run(together)


def test_the_token_is_required(server: Server) -> None:
    right = f"Bearer {server.token}"
    assert server.post() == 401
    assert server.post(authorization="Bearer " + "0" * 48) == 401
    assert server.post(authorization=right[:-1]) == 401
    assert server.post(authorization=right, host="evil.example.test") == 421
    assert server.post(authorization=right, origin="http://evil.example.test") == 403
    assert server.post(authorization=right) not in (401, 403, 421)
    with httpx2.Client(timeout=60, trust_env=False) as client:
        assert client.get(server.url.removesuffix("/mcp")).status_code == 401


def test_the_token_is_private_and_can_be_given(hf: Holdfast, cli: Cli, server: Server) -> None:
    assert (hf.home.root / "mcp-token").stat().st_mode & 0o777 == 0o600
    weak = cli("mcp", "--http", "0", HOLDFAST_MCP_TOKEN="secret")
    assert weak.code == 1
    assert "cannot use the token" in weak.err
    taken = cli("mcp", "--http", str(server.port))
    assert taken.code == 1
    assert "cannot listen" in taken.err


def resident(process: subprocess.Popen[bytes]) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found
    return int(found[1]) << 10


def test_strangers_do_not_fill_its_memory_nor_keep_others_out(server: Server) -> None:
    """Connections that send nothing, bodies without end, and frames of garbage; none has the token."""
    before = resident(server.process)
    silent = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(150)]
    endless = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    endless.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as garbage:
        garbage.sendall(b"\x16\x03\x01\x02\x00" + bytes(range(256)) * 40 + b"\r\n\r\n")
    try:
        for _ in range(400):
            endless.sendall(b"40000\r\n" + b"x" * 0x40000 + b"\r\n")
    except OSError:
        pass  # it has closed the connection
    assert server.post(authorization=f"Bearer {server.token}") not in (401, 503)
    assert resident(server.process) - before < 64 << 20
    for each in (*silent, endless):
        each.close()


@pytest.mark.thorough
def test_connections_that_ask_nothing_are_closed(server: Server) -> None:
    """More of them than can be served; some send the beginning of a request, and then stop."""
    right = f"Bearer {server.token}"
    silent = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(400)]
    for each in silent[::2]:
        each.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.")
    assert server.post(authorization=right) == 503
    assert polling.until(lambda: server.post(authorization=right) != 503, 60)
    for each in silent:
        each.settimeout(30)
        with suppress(ConnectionError):
            assert not each.recv(1 << 16).startswith(b"HTTP/1.1 2")
        each.close()


def test_a_body_that_is_too_large_is_refused(server: Server) -> None:
    headers = JSON | {"authorization": f"Bearer {server.token}"}
    with httpx2.Client(timeout=30, trust_env=False) as client:
        answer = client.post(server.url, content=b"[" + b"1," * (5 << 20) + b"1]", headers=headers)
    assert answer.status_code == 413
    assert server.post(authorization=f"Bearer {server.token}") != 503


def test_a_command_goes_on_when_the_server_ends(hf: Holdfast, server: Server) -> None:
    command = "until [ -e /srv/go ]; do sleep 0.02; done; echo survived"

    async def begin() -> None:
        text = await ask(server, "run", command=command, wait=0.2)
        assert "still runs" in text

    anyio.run(begin)
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(60)
    session = hf.session("work")
    assert session.shell().command_id is not None
    session.files.write("/srv/go", b"")
    assert polling.until(lambda: session.shell().command_id is None, 60)
    assert "survived" in session.terminal.screen().text
