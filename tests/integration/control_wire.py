"""The control plane of E2B's wire, as tests call it without a client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from tests.integration.served import Served

from holdfast.base import polling

PATIENCE = 90.0


class ControlWire:
    """One client of a server."""

    def __init__(self, server: Served) -> None:
        self.server = server
        headers = {"x-api-key": f"e2b_{server.token}"}
        self.client = httpx.Client(base_url=server.url, headers=headers, timeout=120, trust_env=False)
        self.made: list[str] = []

    def answer(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        return self.client.request(method, path, json=body, **more)

    def call(self, method: str, path: str, body: Any = None, status: int = 200, **more: Any) -> Any:
        """Return the answer to a request, which must have this status; its sentence if it is an error."""
        answer = self.answer(method, path, body, **more)
        assert answer.status_code == status, (answer.status_code, answer.text[:2000])
        if status >= 400:
            told = answer.json()
            assert told["code"] == status
            assert "\n" not in told["message"]
            return told["message"]
        return answer.json() if answer.content else None

    def new(self, path: str = "/v2/sandboxes", headers: Any = None, **body: Any) -> dict[str, Any]:
        """Make a sandbox, which is killed at the end."""
        given = {"templateID": "base", "timeout": 600, **body}
        made: dict[str, Any] = self.call("POST", path, given, 201, headers=headers)
        self.made.append(made["sandboxID"])
        return made

    def state(self, sandbox: str) -> str:
        """Return `running`, `paused`, or `gone` for a removed container."""
        answer = self.answer("GET", f"/sandboxes/{sandbox}")
        return "gone" if answer.status_code == 404 else str(answer.json()["state"])

    def reaches(self, made: dict[str, Any], token: str | None = None) -> int:
        """Return the status of a request to one sandbox."""
        headers = {"e2b-sandbox-id": made["sandboxID"], "x-access-token": token or made["envdAccessToken"]}
        return httpx.get(
            f"{self.server.url}/health", headers=headers, timeout=60, trust_env=False
        ).status_code

    def becomes(self, sandbox: str, state: str) -> None:
        """Wait until a sandbox is in a state."""
        assert polling.until(lambda: self.state(sandbox) == state, PATIENCE, 0.1), self.state(sandbox)


@contextmanager
def control_wire(server: Served) -> Iterator[ControlWire]:
    """Yield a client, and kill afterwards what it made."""
    found = ControlWire(server)
    try:
        yield found
    finally:
        for each in found.made:
            assert found.answer("DELETE", f"/sandboxes/{each}").status_code in (204, 404)
        found.client.close()
