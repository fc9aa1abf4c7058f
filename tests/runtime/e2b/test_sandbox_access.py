"""Access to sandboxes: by the server's token, a sandbox's own, or a signed address; by which names."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Iterable
from typing import Any, cast

import pytest
from tests.runtime.serve.gated_doors import gated, nothing

from holdfast.runtime.e2b import sandbox_access
from holdfast.runtime.e2b.sandbox_access import (
    PORT,
    SANDBOX,
    PortDoor,
    PortName,
    SandboxDoor,
    SandboxIds,
    SandboxTokens,
    Scopes,
    is_of_wire,
    named,
    said_by_name,
    signature,
)
from holdfast.runtime.http_doors.admission import Admission
from holdfast.runtime.http_doors.door_sockets import ADMITTED
from holdfast.runtime.serve.call_threads import TooManyCalls
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.serve.preview_visits import PreviewVisits

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
        door = SandboxDoor(Admission("secret"), scopes, TOKENS, SandboxIds(ids))
        await gated(door, other=app("other"))(request, nothing, send)

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
        for name in ({}, {"e2b_sandbox_id": ONE}, {"e2b_sandbox_id": "c" * 12, "e2b_sandbox_port": "49983"}):
            for path in ("/v2/sandboxes", f"/sandboxes/{TWO}", "/snapshots", "/templates/x"):
                sent = {"x_access_token": own, "e2b_traffic_access_token": own, **name}
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


def test_removed_sandboxes_lose_their_tokens() -> None:
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
    """A different process could have made it just now; concurrent callers share the look."""
    monkeypatch.setattr(sandbox_access, "SECONDS", 3600.0)
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

    door = SandboxDoor(Admission("secret"), Scopes(*[never] * 4), TOKENS, SandboxIds(read))
    request = scope("/envs", e2b_sandbox_id=ONE, x_access_token=TOKENS.access(ONE))
    await gated(door, other=never)(request, nothing, send)
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


def file_scope(query: str, method: str = "GET") -> dict[str, Any]:
    return {"method": method, "path": "/files", "query_string": query.encode()}


def test_a_signed_address_has_file_and_expiry() -> None:
    found = signature(
        file_scope("path=%2Ftmp%2Fa+b%C3%BC&username=ada&signature=v1_x%2By&signature_expiration=9")
    )
    assert found is not None
    assert (found.path, found.operation, found.user) == ("/tmp/a bü", "read", "ada")
    assert (found.signature, found.expiration) == ("v1_x+y", 9)
    assert found.expired(10)
    assert not found.expired(9)
    upload = signature(file_scope("signature=x", "POST"))
    assert upload is not None
    assert (upload.operation, upload.path, upload.user, upload.expired(1e12)) == ("write", "", "", False)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "path=a",
        "path=a&signature=x&path=b",
        "path=a&signature=x&path=",
        "username=&signature=x&username=ada",
        "signature=x&signature=y",
        "signature=x&signature_expiration=soon",
        "signature=x&signature_expiration=",
        "signature=x&signature_expiration=-1",
        "signature=x&signature_expiration=%D9%A1",
        "signature=x&signature_expiration=" + "9" * 13,
        "&".join(["signature=x"] * 5000),
    ],
)
def test_ambiguous_signed_addresses_are_refused(query: str) -> None:
    assert signature(file_scope(query)) is None


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (f"3000-{ONE}.localhost:8420", PortName(ONE, 3000, b"localhost:8420")),
        (f"3000-{ONE}.LOCALHOST", PortName(ONE, 3000, b"localhost")),
        (f"80-{ONE}.sandboxes.example.org", PortName(ONE, 80, b"sandboxes.example.org")),
        (f"99999-{ONE}.localhost", PortName(ONE, 99999, b"localhost")),
        (f"{ONE}.localhost", None),
        (f"3000-{ONE}", None),
        (f"x-{ONE}.localhost", None),
        (f"3000-{ONE}_.localhost", None),
        ("localhost:8420", None),
        ("", None),
    ],
)
def test_names_of_hosts(host: str, expected: PortName | None) -> None:
    assert named({b"host": host.encode()}) == expected


def test_headers_say_it_where_the_name_does_not() -> None:
    """Not for the ports at which the server itself answers, as clients use them."""
    said = {b"host": b"localhost", b"e2b-sandbox-id": ONE.encode()}
    assert named(said | {b"e2b-sandbox-port": b"3000"}) == PortName(ONE, 3000)
    for port in (b"49983", b"49999", b"", b"x", b"-1", b"123456", b"3000 "):
        assert named(said | {b"e2b-sandbox-port": port}) is None
    assert named({b"host": b"localhost", b"e2b-sandbox-port": b"3000"}) is None
    other = said | {b"host": b"80-aaaaaaaaaaaa.localhost", b"e2b-sandbox-port": b"3000"}
    assert named(other) == PortName("aaaaaaaaaaaa", 80, b"localhost")


def test_which_ports_there_are() -> None:
    assert [PortName(ONE, port).possible for port in (0, 1, 65535, 65536)] == [False, True, True, False]
    assert [PortName(ONE, port).own for port in (49983, 49999, 49998)] == [True, True, False]


TRAFFIC = TOKENS.traffic(ONE)


def port_asked(host: str, kind: str = "http", there: Iterable[str] = (ONE,), **headers: str) -> Any:
    """Return the port that a request passes to, the scope that others get, or the status of the refusal."""
    found: list[Any] = []

    async def traffic(scope: Any, receive: Any, send: Any) -> None:
        assert scope[ADMITTED]
        found.append(scope[PORT])

    async def other(scope: Any, receive: Any, send: Any) -> None:
        found.append(dict(scope["headers"]))

    async def send(message: Any) -> None:
        found.append(message.get("status") or json.loads(message["body"])["code"])

    async def ids() -> Iterable[str]:
        return there

    pairs = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    scope = {
        "type": kind,
        "method": "GET",
        "path": "/v1/sessions",
        "headers": [(b"host", host.encode()), *pairs],
    }
    rules = Admission("secret", ["box.example"])

    async def met() -> None:
        visits = PreviewVisits(cast("Callers", None), "", traffic)
        door = PortDoor(rules, traffic, cast("Callers", None), TOKENS, SandboxIds(ids), visits)
        await gated(door, other=other, read=said_by_name(rules))(scope, nothing, send)

    asyncio.run(met())
    return found[0]


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("domain", ["localhost", "localhost:8420", "box.example", "127.0.0.1:1"])
def test_a_name_of_this_server_leads_to_the_port(domain: str, kind: str) -> None:
    found = port_asked(f"3000-{ONE}.{domain}", kind, e2b_traffic_access_token=TRAFFIC)
    assert found == PortName(ONE, 3000, domain.encode())


def test_requests_without_a_port_are_left_to_others() -> None:
    for host in ("localhost:8420", f"{ONE}.localhost", "box.example"):
        assert port_asked(host, e2b_traffic_access_token=TRAFFIC)[b"host"] == host.encode()


def test_the_servers_own_ports_are_left_to_other_wires() -> None:
    """And not what else a client says, by a name that is this server's."""
    lie = {"e2b_sandbox_id": "b" * 12, "e2b_sandbox_port": "1"}
    found = port_asked(f"49999-{ONE}.box.example:443", **lie)
    assert found == {
        b"host": b"box.example:443",
        b"e2b-sandbox-id": ONE.encode(),
        b"e2b-sandbox-port": b"49999",
    }


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (f"3000-{ONE}.example.org", 421),
        (f"49999-{ONE}.example.org", 421),
        (f"3000-{ONE}.localhost.example.org", 421),
        (f"0-{ONE}.localhost", 400),
        (f"65536-{ONE}.localhost", 400),
    ],
)
def test_other_names_are_refused(host: str, status: int) -> None:
    assert port_asked(host, e2b_traffic_access_token=TRAFFIC) == status


def test_a_removed_sandbox_differs_from_an_unknown_one() -> None:
    """Its own token is not an exception."""
    for token in ("", TRAFFIC, TOKENS.traffic("b" * 12)):
        assert port_asked(f"3000-{ONE}.localhost", there=(), e2b_traffic_access_token=token) == 502
    assert (
        port_asked("localhost", e2b_sandbox_id=ONE, e2b_sandbox_port="3000", origin="http://evil.example")
        == 403
    )


def test_the_servers_own_token_opens_the_ports_of_each_session() -> None:
    """By the names of this server alone, and only as it is sent everywhere."""
    own = {"authorization": "Bearer secret"}
    assert port_asked(f"3000-{ONE}.localhost", **own) == PortName(ONE, 3000, b"localhost")
    assert port_asked(f"3000-{ONE}.localhost", there=(), **own) == 502
    assert port_asked(f"3000-{ONE}.example.org", **own) == 421
    for wrong in (
        {"authorization": "secret"},
        {"x_access_token": "secret"},
        {"authorization": "Bearer other"},
    ):
        assert port_asked(f"3000-{ONE}.localhost", there=(), **wrong) == 502


def test_a_token_is_for_its_own_header() -> None:
    for sent in ({"x_access_token": TRAFFIC}, {"e2b_traffic_access_token": TOKENS.access(ONE)}):
        assert port_asked(f"3000-{ONE}.localhost", there=(), **sent) == 502
    assert port_asked(f"3000-{ONE}.localhost", x_access_token=TOKENS.access(ONE)) == PortName(
        ONE, 3000, b"localhost"
    )
