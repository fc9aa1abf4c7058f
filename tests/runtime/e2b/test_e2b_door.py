"""Who is let in by the wire of E2B: by the server's token, a sandbox's own, or a signed address."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Iterable
from typing import Any

import pytest

from holdfast.runtime.e2b import sandbox_ids
from holdfast.runtime.e2b.e2b_door import SandboxDoor, Scopes, is_of_wire
from holdfast.runtime.e2b.sandbox_caller import SANDBOX
from holdfast.runtime.e2b.sandbox_ids import SandboxIds
from holdfast.runtime.e2b.sandbox_tokens import SandboxTokens
from holdfast.runtime.http_doors.door_guard import Admission
from holdfast.runtime.serve.call_threads import TooManyCalls

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
    """Return the application that a request reaches, with the sandbox, or the status of the refusal."""
    found: list[str | int] = []

    def app(name: str) -> Any:
        async def noted(scope: Any, receive: Any, send: Any) -> None:
            found.append(f"{name} {scope[SANDBOX][0]}" if SANDBOX in scope else name)

        return noted

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            found.append(message["status"])

    async def ids() -> Iterable[str]:
        return [ONE, TWO]

    scopes = Scopes(*map(app, ("control", "sandbox", "contexts", "files")))

    async def met() -> None:
        door = SandboxDoor(scopes, app("other"), Admission("secret"), TOKENS, SandboxIds(ids))
        await door(request, None, send)  # type: ignore[arg-type]

    asyncio.run(met())
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


def test_no_token_of_a_sandbox_leads_to_sandboxes_as_wholes() -> None:
    """Nor does one that comes without a key: the path alone says which application is meant."""
    for own in (TOKENS.access(ONE), TOKENS.traffic(ONE), TOKENS.traffic("c" * 12)):
        for named in ({}, {"e2b_sandbox_id": ONE}, {"e2b_sandbox_id": "c" * 12, "e2b_sandbox_port": "49983"}):
            for path in ("/v2/sandboxes", f"/sandboxes/{TWO}", "/snapshots", "/templates/x"):
                sent = {"x_access_token": own, "e2b_traffic_access_token": own, **named}
                assert asked(scope(path, **sent)) == 401


def test_processes_and_files_need_the_access_token() -> None:
    paths = ("/process.Process/List", "/files", "/execute", "/envs", "/health", "/contextsx")
    for path in paths:
        own = scope(path, e2b_sandbox_id=ONE, x_access_token=TOKENS.access(ONE))
        assert asked(own) == "sandbox a"
        assert asked(scope(path, e2b_sandbox_id=TWO, x_access_token=TOKENS.access(ONE))) == 401
        for token in (TOKENS.traffic(ONE), TOKENS.access(ONE)):
            assert asked(scope(path, e2b_sandbox_id=ONE, e2b_traffic_access_token=token)) == 401
        for token in ("", "secret", TOKENS.traffic(ONE)):
            assert asked(scope(path, e2b_sandbox_id=ONE, x_access_token=token)) == 401
    no_id = {"e2b_sandbox_id": "../x", "x_access_token": TOKENS.access("../x")}
    assert asked(scope("/process.Process/List", **no_id)) == 401


def test_contexts_are_for_the_traffic_token_as_well() -> None:
    """Clients send no other there; code is run with the access token."""
    for path in ("/contexts", "/contexts/x/restart"):
        assert (
            asked(scope(path, e2b_sandbox_id=ONE, e2b_traffic_access_token=TOKENS.traffic(ONE)))
            == "contexts a"
        )
        assert asked(scope(path, e2b_sandbox_id=ONE, x_access_token=TOKENS.access(ONE))) == "sandbox a"
        assert asked(scope(path, e2b_sandbox_id=TWO, e2b_traffic_access_token=TOKENS.traffic(ONE))) == 401


def test_what_is_gone_has_no_tokens() -> None:
    for token in (
        {"x_access_token": TOKENS.access("c" * 12)},
        {"e2b_traffic_access_token": TOKENS.traffic("c" * 12)},
    ):
        assert asked(scope("/contexts", e2b_sandbox_id="c" * 12, **token)) == 502


def test_a_token_without_a_name_is_enough() -> None:
    assert asked(scope("/health", x_access_token=TOKENS.access(TWO))) == "sandbox b"
    assert asked(scope("/health", x_access_token=TOKENS.access("c" * 12))) == 401
    assert asked(scope("/health", x_access_token=TOKENS.traffic(TWO))) == 401
    assert asked(scope("/health")) == "other"


def test_a_signed_address_is_for_one_file_and_one_use() -> None:
    text = f"/tmp/x:read::{TOKENS.access(TWO)}:9999999999"
    sign = "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    query = "path=/tmp/x&signature_expiration=9999999999&signature=" + sign.replace("+", "%2B")
    assert asked(scope("/files", query)) == "files b"
    assert asked(scope("/files", query, e2b_sandbox_id=TWO)) == "files b"
    assert asked(scope("/files", query, e2b_sandbox_id=ONE)) == 401
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
async def test_an_id_that_is_not_known_is_looked_for_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may have made it just now; those who ask at the same time share the look."""
    monkeypatch.setattr(sandbox_ids, "SECONDS", 3600.0)
    reads, there = 0, ["one"]

    async def read() -> list[str]:
        nonlocal reads
        reads += 1
        found = list(there)
        await asyncio.sleep(0)
        return found

    ids = SandboxIds(read)
    assert await ids.has("one")
    there.append("two")
    assert await ids.known() == ["one"]
    assert await asyncio.gather(*(ids.has("two") for _ in range(20))) == [True] * 20
    assert reads <= 3
    assert await asyncio.gather(*(ids.has("three") for _ in range(20))) == [False] * 20
    assert reads <= 5
    there.remove("one")
    assert not await ids.has("three")
    assert not await ids.has("one")


@pytest.mark.asyncio
async def test_ids_that_cannot_be_read_are_an_answer() -> None:
    answers: list[Any] = []

    async def read() -> list[str]:
        raise TooManyCalls("cannot do more")

    async def send(message: Any) -> None:
        answers.append(message)

    async def never(*_: Any) -> None:
        raise AssertionError

    door = SandboxDoor(Scopes(*[never] * 4), never, Admission("secret"), TOKENS, SandboxIds(read))
    request = scope("/envs", e2b_sandbox_id=ONE, x_access_token=TOKENS.access(ONE))
    await door(request, None, send)  # type: ignore[arg-type]
    assert answers[0]["status"] == 503


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
