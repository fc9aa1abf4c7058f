"""The gate decides before any door, and notes for the connection of a request who came in."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.serve.gated_doors import OpenDoor, gated, nothing

from holdfast.runtime.access.access_keys import AccessKeys
from holdfast.runtime.http_doors.admission import Admission, Scope
from holdfast.runtime.http_doors.door_sockets import ADMITTED
from holdfast.runtime.jupyter.jupyter_app import JupyterDoor
from holdfast.runtime.serve.request_gate import ServedDoor
from holdfast.runtime.serve.server_app import ApiDoor

TOKEN = b"the-token-of-this-server"
RIGHT = [(b"authorization", b"Bearer " + TOKEN)]
HERE, AWAY = [(b"host", b"localhost")], [(b"host", b"elsewhere.test")]
RULES = Admission(TOKEN.decode(), keys=AccessKeys(Path("/nowhere")))
"""Of a home that has no keys."""


class Visitors(OpenDoor):
    """A door that lets strangers in."""

    def takes(self, scope: Scope) -> Scope | None:
        return {**scope, ADMITTED: False}


async def answer(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 299, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def asked(door: ServedDoor, path: str, headers: list[tuple[bytes, bytes]]) -> tuple[int, object]:
    """Return the status of an answer, and the record of its admission on the connection."""
    sent: list[Any] = []
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": headers}

    async def send(message: Any) -> None:
        sent.append(message)

    async def met() -> None:
        await gated(door, other=answer)(scope, nothing, send)

    asyncio.run(met())
    return sent[0]["status"], scope.get(ADMITTED)


@pytest.mark.parametrize(
    ("door", "path"),
    [(ApiDoor(RULES, answer), "/v1/board"), (JupyterDoor(RULES, answer), "/jupyter/a/api")],
)
def test_a_connection_is_known_by_the_request_that_was_let_in(door: ServedDoor, path: str) -> None:
    """Also if its door has seen the request with a different path."""
    assert asked(door, path, HERE + RIGHT) == (299, True)
    assert asked(door, path, HERE) == (401, None)


def test_a_visitor_stays_a_stranger() -> None:
    assert asked(Visitors(answer), "/", HERE) == (299, False)


def test_a_wrong_name_is_reported_first_except_by_our_own_api() -> None:
    assert asked(JupyterDoor(RULES, answer), "/api", AWAY)[0] == 421
    assert asked(JupyterDoor(RULES, answer), "/api", AWAY + RIGHT)[0] == 421
    assert asked(ApiDoor(RULES, answer), "/v1/board", AWAY)[0] == 401
    assert asked(ApiDoor(RULES, answer), "/v1/board", AWAY + RIGHT)[0] == 421
