"""Who is let in by the wire of E2B: by the server's token, a sandbox's own, or a signed address."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Iterable
from typing import Any

import pytest

from holdfast.runtime.e2b.e2b_door import SandboxDoor, is_of_wire
from holdfast.runtime.e2b.sandbox_caller import SANDBOX
from holdfast.runtime.e2b.sandbox_ids import SandboxIds
from holdfast.runtime.e2b.sandbox_tokens import SandboxTokens
from holdfast.runtime.http_doors.door_guard import Admission

TOKENS = SandboxTokens("secret")
ONE, TWO = "a" * 12, "b" * 12


def scope(path: str, query: str = "", method: str = "GET", **headers: str) -> dict[str, Any]:
    pairs = [(name.replace("_", "-").lower().encode(), text.encode()) for name, text in headers.items()]
    return {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost"), *pairs],
    }


def asked(request: dict[str, Any]) -> str | int:
    """Return the sandbox that a request is let into, `control` or `other`; or the status of the refusal."""
    found: list[str | int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        found.append(scope.get(SANDBOX, "control"))

    async def other(scope: Any, receive: Any, send: Any) -> None:
        found.append("other")

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            found.append(message["status"])

    async def ids() -> Iterable[str]:
        return [ONE, TWO]

    door = SandboxDoor(app, other, Admission("secret"), TOKENS, ids)
    asyncio.run(door(request, None, send))  # type: ignore[arg-type]
    return found[0]


def test_sandboxes_as_wholes_need_the_token_of_the_server() -> None:
    assert asked(scope("/v2/sandboxes", x_api_key="secret")) == "control"
    assert asked(scope("/v2/sandboxes", x_api_key="e2b_secret")) == "control"
    for key in ("", "other", "e2b_", "e2b_other"):
        assert asked(scope("/sandboxes", x_api_key=key)) == 401
    assert asked(scope("/sandboxes")) == 401
    # Some clients also name the sandbox; that is no way in.
    assert asked(scope(f"/sandboxes/{ONE}", x_api_key="e2b_secret", e2b_sandbox_id=ONE)) == "control"
    own = {"e2b_sandbox_id": ONE, "x_access_token": TOKENS.access(ONE)}
    assert asked(scope(f"/sandboxes/{ONE}", x_api_key="other", **own)) == 401


def test_one_sandbox_needs_a_token_of_its_own() -> None:
    for name, token in (
        ("x_access_token", TOKENS.access(ONE)),
        ("e2b_traffic_access_token", TOKENS.traffic(ONE)),
    ):
        assert asked(scope("/process.Process/List", e2b_sandbox_id=ONE, **{name: token})) == ONE
        assert asked(scope("/process.Process/List", e2b_sandbox_id=TWO, **{name: token})) == 401
    assert asked(scope("/process.Process/List", e2b_sandbox_id=ONE)) == 401
    assert asked(scope("/process.Process/List", e2b_sandbox_id=ONE, x_access_token="secret")) == 401
    assert (
        asked(scope("/process.Process/List", e2b_sandbox_id="../x", x_access_token=TOKENS.access("../x")))
        == 401
    )


def test_a_token_without_a_name_is_enough() -> None:
    assert asked(scope("/health", x_access_token=TOKENS.access(TWO))) == TWO
    assert asked(scope("/health", x_access_token=TOKENS.access("c" * 12))) == 401
    assert asked(scope("/health", x_access_token=TOKENS.traffic(TWO))) == 401
    assert asked(scope("/health")) == "other"


def test_a_signed_address_is_for_one_file_and_one_use() -> None:
    text = f"/tmp/x:read::{TOKENS.access(TWO)}:9999999999"
    sign = "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    query = "path=/tmp/x&signature_expiration=9999999999&signature=" + sign.replace("+", "%2B")
    assert asked(scope("/files", query)) == TWO
    assert asked(scope("/files", query, "POST")) == 401
    assert asked(scope("/files", query.replace("/tmp/x", "/tmp/y"))) == 401
    assert asked(scope("/files", query.replace("9999999999", "1"))) == 401
    assert asked(scope("/envs", query)) == 401


def test_other_requests_are_not_of_this_wire() -> None:
    for path in ("/v1/sessions", "/health", "/openapi.json", "/metrics", "/"):
        assert not is_of_wire(scope(path))
    for path in (
        "/sandboxes",
        "/v2/sandboxes",
        "/templates/x",
        "/process.Process/Start",
        "/files",
        "/execute",
    ):
        assert is_of_wire(scope(path))


@pytest.mark.asyncio
async def test_ids_are_read_once_for_many_and_again_when_there_is_another() -> None:
    reads = 0

    async def read() -> list[str]:
        nonlocal reads
        reads += 1
        await asyncio.sleep(0)
        return [str(reads)]

    ids = SandboxIds(read)
    assert [*await asyncio.gather(ids.known(), ids.known(), ids.known())] == [["1"]] * 3
    assert await ids.known() == ["1"]
    ids.forget()
    assert await ids.known() == ["2"]
