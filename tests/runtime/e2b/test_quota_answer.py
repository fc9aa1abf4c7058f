"""The quota of a home in the words of this wire and of our own API."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.requests import Request

from holdfast.errors import QuotaReached
from holdfast.runtime.e2b import e2b_app
from holdfast.runtime.serve import server_app


@pytest.mark.parametrize("handler", [e2b_app._of_library, server_app._of_library])
@pytest.mark.parametrize(("seconds", "told"), [(0.2, "1"), (9.1, "10"), (None, None)])
def test_a_client_learns_when_to_ask_again(handler: Any, seconds: float | None, told: str | None) -> None:
    """Status 429 in both; clients of E2B know the beginning of the sentence."""
    error = QuotaReached("cannot run another session: the quota is 5", hint="wait", retry_after=seconds)
    scope = {"type": "http", "method": "POST", "path": "/sandboxes", "headers": [], "query_string": b""}
    answer = asyncio.run(handler(Request(scope), error))

    body = json.loads(answer.body)
    assert (answer.status_code, answer.headers.get("retry-after")) == (429, told)
    if "error" in body:
        assert body["error"]["code"] == "quota"
    else:
        assert body["code"] == 429
        assert body["message"].startswith("Rate limit exceeded: cannot run another session: the quota is 5")
