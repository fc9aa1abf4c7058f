"""Which requests are for ports, and by which names of this server they may come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any, cast

import pytest

from holdfast.runtime.e2b.ports.port_door import PORT, PortDoor
from holdfast.runtime.e2b.ports.port_names import PortName
from holdfast.runtime.e2b.sandbox_ids import SandboxIds
from holdfast.runtime.e2b.sandbox_tokens import SandboxTokens
from holdfast.runtime.http_doors.door_connections import ADMITTED
from holdfast.runtime.http_doors.door_guard import Admission
from holdfast.runtime.serve.callers import Callers

TOKENS = SandboxTokens("secret")
ONE = "a" * 12
TRAFFIC = TOKENS.traffic(ONE)


def asked(host: str, kind: str = "http", there: Iterable[str] = (ONE,), **headers: str) -> Any:
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
    scope = {"type": kind, "path": "/v1/sessions", "headers": [(b"host", host.encode()), *pairs]}
    admission = Admission("secret", ["box.example"])

    async def met() -> None:
        door = PortDoor(traffic, other, cast("Callers", None), admission, TOKENS, SandboxIds(ids))
        await door(scope, None, send)  # type: ignore[arg-type]

    asyncio.run(met())
    return found[0]


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("domain", ["localhost", "localhost:8420", "box.example", "127.0.0.1:1"])
def test_a_name_of_this_server_leads_to_the_port(domain: str, kind: str) -> None:
    found = asked(f"3000-{ONE}.{domain}", kind, e2b_traffic_access_token=TRAFFIC)
    assert found == PortName(ONE, 3000, domain.encode())


def test_what_is_for_no_port_is_left_to_others() -> None:
    for host in ("localhost:8420", f"{ONE}.localhost", "box.example"):
        assert asked(host, e2b_traffic_access_token=TRAFFIC)[b"host"] == host.encode()


def test_the_servers_own_ports_are_left_to_others_with_what_their_name_says() -> None:
    """And not what else a client says, by a name that is this server's."""
    lie = {"e2b_sandbox_id": "b" * 12, "e2b_sandbox_port": "1"}
    found = asked(f"49999-{ONE}.box.example:443", **lie)
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
    assert asked(host, e2b_traffic_access_token=TRAFFIC) == status


def test_a_sandbox_that_is_gone_is_told_from_nothing() -> None:
    """Its own token is no exception."""
    for token in ("", TRAFFIC, TOKENS.traffic("b" * 12)):
        assert asked(f"3000-{ONE}.localhost", there=(), e2b_traffic_access_token=token) == 502
    assert (
        asked("localhost", e2b_sandbox_id=ONE, e2b_sandbox_port="3000", origin="http://evil.example") == 403
    )


def test_the_servers_own_token_opens_the_ports_of_each_session() -> None:
    """By the names of this server alone, and only as it is sent everywhere."""
    own = {"authorization": "Bearer secret"}
    assert asked(f"3000-{ONE}.localhost", **own) == PortName(ONE, 3000, b"localhost")
    assert asked(f"3000-{ONE}.localhost", there=(), **own) == 502
    assert asked(f"3000-{ONE}.example.org", **own) == 421
    for wrong in (
        {"authorization": "secret"},
        {"x_access_token": "secret"},
        {"authorization": "Bearer other"},
    ):
        assert asked(f"3000-{ONE}.localhost", there=(), **wrong) == 502


def test_a_token_is_for_its_own_header() -> None:
    for sent in ({"x_access_token": TRAFFIC}, {"e2b_traffic_access_token": TOKENS.access(ONE)}):
        assert asked(f"3000-{ONE}.localhost", there=(), **sent) == 502
    assert asked(f"3000-{ONE}.localhost", x_access_token=TOKENS.access(ONE)) == PortName(
        ONE, 3000, b"localhost"
    )
