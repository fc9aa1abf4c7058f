"""The agents' application is made once, for the first admitted request, and lives until the end."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from tests.runtime.serve.gated_doors import gated

from holdfast.base.home import Home
from holdfast.runtime.http_doors.admission import Admission
from holdfast.runtime.serve.agents_door import AgentsDoor
from holdfast.runtime.serve.callers import Callers

TOKEN = "a-token-of-this-test"
RIGHT = {"authorization": f"Bearer {TOKEN}"}
Ask = Callable[..., Awaitable[httpx.Response]]


class Agents:
    """An application of agents that notes its life."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.faults = 0
        """How often it cannot be made."""
        self.may_begin = threading.Event()
        self.may_begin.set()

    def make(self) -> Starlette:
        self.notes.append("made")
        assert self.may_begin.wait(30)
        if self.faults:
            self.faults -= 1
            raise ImportError("No module named 'lost'")

        @asynccontextmanager
        async def life(_: Starlette) -> AsyncIterator[None]:
            self.notes.append("begins")
            try:
                yield
            finally:
                self.notes.append("ends")

        async def answer(_: Request) -> Response:
            return PlainTextResponse("an agent's answer")

        return Starlette(routes=[Route("/mcp", answer, methods=["POST"])], lifespan=life)


async def other(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def served(agents: Agents, home: Path, steps: Callable[[Ask, Callers], Awaitable[None]]) -> None:
    """Run steps against an agents' application that serves next to a second one."""

    async def run() -> None:
        callers = Callers(Home(home), lambda _: None)
        door = AgentsDoor(agents.make, callers, Admission(TOKEN))
        transport = httpx.ASGITransport(gated(door, other=other))
        async with (
            door.running(),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
        ):

            async def ask(path: str = "/mcp", **headers: str) -> httpx.Response:
                return await client.post(path, headers=headers)

            await steps(ask, callers)
        agents.notes.append("left")

    asyncio.run(run())


def test_the_door_is_made_once_for_the_first_request_with_the_token(tmp_path: Path) -> None:
    agents = Agents()

    async def steps(ask: Ask, _: Callers) -> None:
        assert (await ask("/health")).status_code == 204
        assert (await ask()).status_code == 401
        assert agents.notes == []
        answers = await asyncio.gather(*(ask(**RIGHT) for _ in range(5)))
        assert {each.text for each in answers} == {"an agent's answer"}
        assert agents.notes == ["made", "begins"]

    served(agents, tmp_path, steps)
    assert agents.notes == ["made", "begins", "ends", "left"]


def test_others_are_answered_while_it_is_made(tmp_path: Path) -> None:
    agents = Agents()
    agents.may_begin.clear()

    async def steps(ask: Ask, _: Callers) -> None:
        first = asyncio.ensure_future(ask(**RIGHT))
        while not agents.notes:
            await asyncio.sleep(0.01)
        assert (await ask("/health")).status_code == 204
        assert not first.done()
        agents.may_begin.set()
        assert (await first).text == "an agent's answer"

    served(agents, tmp_path, steps)


def test_an_attempt_that_fails_is_reported_and_the_next_request_makes_another(tmp_path: Path) -> None:
    agents = Agents()
    agents.faults = 1

    async def steps(ask: Ask, _: Callers) -> None:
        failed = await ask(**RIGHT)
        error = failed.json()["error"]
        assert (failed.status_code, error["code"]) == (500, "internal_error")
        assert "No module named 'lost'" in error["message"]
        assert re.search(r"pip install .*fastapi.*'mcp<3,>=2.3'", error["hint"])
        assert (await ask(**RIGHT)).text == "an agent's answer"

    served(agents, tmp_path, steps)
    assert agents.notes == ["made", "made", "begins", "ends", "left"]


def test_a_server_that_ends_waits_for_no_application(tmp_path: Path) -> None:
    agents = Agents()
    agents.may_begin.clear()

    async def steps(ask: Ask, callers: Callers) -> None:
        first = asyncio.ensure_future(ask(**RIGHT))
        while not agents.notes:
            await asyncio.sleep(0.01)
        callers.stop()
        assert (await first).status_code == 503
        agents.may_begin.set()  # its thread would otherwise outlast the loop

    served(agents, tmp_path, steps)


def test_no_server_without_agents_loads_their_package() -> None:
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, holdfast.runtime.serve.agents_door, holdfast.runtime.serve.server_app\n"
            "import holdfast.runtime.e2b.e2b_app, holdfast.runtime.serve.api_server\n"
            "print(*sorted(sys.modules))",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout.split()
    assert "holdfast.runtime.serve.agents_door" in loaded
    assert [name for name in loaded if name.partition(".")[0] in ("mcp", "mcp_types", "PIL")] == []
