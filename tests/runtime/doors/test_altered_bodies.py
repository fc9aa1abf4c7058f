"""Whatever is in a body, to any route of any door: an answer in its words, and no failure."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from tests.parsers.altered_inputs import ODD, altered, altered_json
from tests.runtime.doors.test_hostile_ids import KEY, OWN, Met, wrong
from tests.runtime.doors.walked_doors import ONE, TOKENS, Headers, WalkedDoors, run

from holdfast.base import run_dir
from holdfast.errors import SessionError

JSON: Headers = [(b"content-type", b"application/json")]
ROUNDS = 4
CALLS = (
    {"method": "tools/call", "params": {"name": "run", "arguments": {"command": "ls", "wait": 1}}},
    {"method": "tools/call", "params": {"name": "task", "arguments": {"action": "show", "text": "x"}}},
    {"method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}}},
    {"method": "notifications/cancelled", "params": {"requestId": 1}},
)
"""Messages of MCP."""


def bodies(dice: random.Random, route: APIRoute) -> Iterator[bytes]:
    """Yield bodies with the fields that a route reads, each of any kind; then some that are not even JSON."""
    field = route.body_field
    fields = getattr(field.field_info.annotation, "model_fields", {}) if field is not None else {}
    names = [info.alias or name for name, info in fields.items()]
    for _ in range(ROUNDS):
        given: Any = {name: dice.choice((*ODD, "a", "/a", 1, ["a"], {"a": "b"})) for name in names}
        yield json.dumps(altered_json(dice, given)).encode()
    yield altered(dice, json.dumps(dict.fromkeys(names, "a")).encode(), (b"\xff", b"1e999", b"[" * 5000))


def key_of(path: str) -> Headers:
    """Return the credential that opens a route."""
    if path.startswith(("/v1", "/health", "/metrics", "/mcp")):
        return OWN
    if path.startswith(("/process.", "/filesystem.", "/files", "/execute", "/contexts")):
        return [(b"e2b-sandbox-id", ONE.encode()), (b"x-access-token", TOKENS.access(ONE).encode())]
    return KEY


def with_bodies(routes: list[BaseRoute]) -> Iterator[tuple[str, APIRoute]]:
    """Yield method and route of operations with a body."""
    for route in routes:
        if isinstance(route, APIRoute):
            yield from (
                (method, route) for method in sorted({"POST", "PUT", "PATCH"} & set(route.methods or ()))
            )


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Note the sessions that are connected to; they and the engine do not exist."""
    found: list[str] = []

    def connect(folder: Any, *_: Any) -> Any:
        found.append(str(folder))
        raise SessionError("cannot reach the session: it is gone")

    monkeypatch.setattr(run_dir, "connect", connect)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine")
    return found


def test_bodies_of_any_kind(tmp_path: Path, reached: list[str], caplog: pytest.LogCaptureFixture) -> None:
    """To each route that takes one, with the credential that opens it and the id of a session."""
    dice, met = random.Random(37), Met()

    async def steps(doors: WalkedDoors) -> None:
        for method, route in with_bodies(doors.routes()):
            path = re.sub(r"\{[^}]*\}", ONE, route.path)
            for body in bodies(dice, route):
                headers = [*key_of(route.path), *JSON]
                met.append((f"{method} {route.path}", "", await doors.ask(method, path, headers, "", body)))

    run(tmp_path / "home-of-this-test", steps)
    assert len(met) > 300
    assert {answer.status for _, _, answer in met} & {401, 403} == set()
    assert [each for each in wrong(met, caplog) if each[2].status == 500] == []
    assert reached  # some bodies have the right form


def test_messages_of_mcp_of_any_kind(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They are answered, or refused as JSON-RPC has it."""
    dice, met = random.Random(37), Met()
    headers = [*OWN, *JSON, (b"accept", b"application/json, text/event-stream")]

    async def steps(doors: WalkedDoors) -> None:
        for number in range(60):
            message: Any = {"jsonrpc": "2.0", "id": number, **dice.choice(CALLS)}
            for _ in range(dice.choice((1, 2))):
                message = altered_json(dice, message)
            body = json.dumps(message).encode()
            if number % 3 == 0:
                body = altered(dice, body, (b"\xff", b"[" * 5000, b"1e999"))
            met.append(("POST /mcp", str(number), await doors.ask("POST", "/mcp", headers, "", body)))

    run(tmp_path / "home-of-this-test", steps)
    assert {answer.status for _, _, answer in met} <= {200, 202, 400, 404, 406, 415, 422}, met
    assert wrong([each for each in met if each[2].status == 500], caplog) == []
