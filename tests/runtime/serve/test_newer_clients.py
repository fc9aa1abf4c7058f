"""Requests that only a newer client sends are refused as such; no part of them is ignored."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.base.home import Home
from holdfast.base.version import VERSION
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.runtime.client.client_errors import error_of
from holdfast.runtime.http_doors.admission import Admission
from holdfast.runtime.http_doors.request_limits import RequestRate
from holdfast.runtime.serve import server_app
from holdfast.runtime.serve.callers import Callers

TOKEN = "a-token-of-this-test"


def _error(folder: Path, method: str, path: str, body: Any) -> HoldfastError:
    """Return the error that a client makes of a server's answer."""

    async def ask() -> httpx.Response:
        app = server_app.application(
            Callers(Home(folder), lambda _: None), Admission(TOKEN), RequestRate(0, 1)
        )
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://127.0.0.1", headers=headers
        ) as client:
            return await client.request(method, path, json=body)

    return error_of(asyncio.run(ask()).json())


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("POST", "/v1/sessions/work/levitate", {}, "cannot answer: the server does not have this path"),
        ("PATCH", "/v1/sessions", {}, "cannot answer: the server does not have this path and method"),
        ("POST", "/v1/sessions", {"levitate": 1}, "cannot read the request: levitate: Extra inputs"),
    ],
)
def test_unknown_fields_are_refused_by_the_server(
    tmp_path: Path, method: str, path: str, body: Any, said: str
) -> None:
    """A path, a method, a field; the answer says which version refuses."""
    error = _error(tmp_path, method, path, body)
    assert str(error).startswith(said)
    assert error.hint.startswith(f"this server is Holdfast {VERSION}, which is older")


def test_other_mistakes_are_not_of_a_version(tmp_path: Path) -> None:
    error = _error(tmp_path, "POST", "/v1/sessions", {"name": 5})
    assert isinstance(error, InvalidArgument)
    assert "name: " in str(error)
    assert error.hint == ""
