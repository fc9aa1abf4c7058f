"""Agents on the server's own port: the tools of `holdfast mcp`, next to the server's other operations."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.integration.conftest import Cli
from tests.integration.served import Served, serving

from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.runtime.api.session import Session

ASK = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "sessions", "arguments": {}}}
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@pytest.fixture(scope="module")
def server(shared: Session, make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    with serving(make_cli(shared_home), shared_home) as found:
        yield found


async def ask(server: Served, tool: str, mode: Any = "auto", **arguments: Any) -> str:
    async with (
        httpx2.AsyncClient(headers=server.headers, timeout=60, trust_env=False) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http), mode=mode) as client,
    ):
        result = await client.call_tool(tool, arguments)
        return str(result.content[0].text)  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_agents_and_programs_see_the_same_sessions(server: Served, mode: str) -> None:
    async def both() -> None:
        assert "hi\n[exit 0" in await ask(server, "run", mode, session="shared", command="echo hi; X=7")
        assert (await ask(server, "cell", mode, session="shared", code="6*7")).startswith("42\n")

    anyio.run(both)
    assert server.post("/v1/sessions/shared/exec", {"command": "echo $X"})["output"] == "7\n"
    found = server.get("/v1/sessions/shared/journal", kind="command_started", grep="echo hi")
    assert found[-1]["actor"].startswith("agent:")


def test_the_package_of_agents_is_loaded_when_the_first_one_comes(
    shared: Session, make_cli: Callable[[Home], Cli], shared_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interpreter itself reports what it loads, in the server's log."""
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    log = shared_home.root / "server.log"
    begin = log.stat().st_size if log.exists() else 0

    def loaded() -> set[str]:
        lines = log.read_bytes()[begin:].decode("utf-8", "replace").splitlines()
        return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}

    with serving(make_cli(shared_home), shared_home) as found:
        assert found.get("/health")["status"] == "ok"
        assert "holdfast.runtime.serve.agents_door" in loaded()
        assert not {"mcp", "mcp.server", "PIL"} & loaded()
        assert "shared" in anyio.run(ask, found, "sessions")
        assert "mcp.server" in loaded()


def test_the_token_is_required(server: Served) -> None:
    def status(**headers: str) -> int:
        with httpx2.Client(timeout=20, trust_env=False) as client:
            return client.post(f"{server.url}/mcp", json=ASK, headers=HEADERS | headers).status_code

    right = server.headers["authorization"]
    assert status() == 401
    assert status(authorization=right[:-1]) == 401
    assert status(authorization=right, host="evil.example.test") == 421
    assert status(authorization=right, origin="http://evil.example.test") == 403
    assert status(authorization=right) not in (401, 403, 421)
    assert server.call("GET", "/mcp/other", status=404)["error"]["code"] == "not_found"


def test_a_body_has_a_limit(server: Served) -> None:
    with httpx2.Client(timeout=60, trust_env=False) as client:
        large = {**ASK, "more": "x" * (5 << 20)}
        answer = client.post(f"{server.url}/mcp", json=large, headers=HEADERS | server.headers)
    assert answer.status_code == 413


def test_the_server_ends_although_agents_listen_and_wait(
    shared: Session, make_cli: Callable[[Home], Cli], shared_home: Home
) -> None:
    """Their commands continue."""
    with serving(make_cli(shared_home), shared_home) as found:

        def wait() -> None:
            with pytest.raises(BaseException):  # noqa: B017  (whatever a client makes of it)
                anyio.run(lambda: ask(found, "run", "legacy", session="shared", command="sleep 600"))

        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        assert polling.until(lambda: shared.shell().command_id is not None, 60)
        found.process.send_signal(signal.SIGTERM)
        assert found.process.wait(30) == 0
    assert "graceful shutdown exceeded" not in (shared_home.root / "server.log").read_text()
    assert shared.shell().command_id is not None
    shared.interrupt()
    waiting.join(30)
