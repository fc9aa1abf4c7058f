"""Which requests are for ports, and by which names of this server they may come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any, cast

import pytest

from holdfast.runtime.e2b.ports.port_door import PORT, PortDoor
from holdfast.runtime.e2b.ports.port_names import PortName
from holdfast.runtime.e2b.sandbox_tokens import SandboxTokens
from holdfast.runtime.http_doors.door_connections import ADMITTED
from holdfast.runtime.http_doors.door_guard import Admission
from holdfast.runtime.serve.callers import Callers

TOKENS = SandboxTokens("secret")
ONE = "a" * 12
TRAFFIC = TOKENS.traffic(ONE)


def asked(host: str, kind: str = "http", **headers: str) -> Any:
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
        return []

    pairs = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    scope = {"type": kind, "path": "/v1/sessions", "headers": [(b"host", host.encode()), *pairs]}
    door = PortDoor(traffic, other, cast("Callers", None), Admission("secret", ["box.example"]), TOKENS, ids)
    asyncio.run(door(scope, None, send))  # type: ignore[arg-type]
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


def test_without_a_token_a_sandbox_that_is_not_known_is_told_from_nothing() -> None:
    assert asked(f"3000-{ONE}.localhost") == 502
    assert asked(f"3000-{ONE}.localhost", e2b_traffic_access_token=TOKENS.traffic("b" * 12)) == 502
    assert (
        asked("localhost", e2b_sandbox_id=ONE, e2b_sandbox_port="3000", origin="http://evil.example") == 403
    )
