"""Bodies of requests: their size, and the time in which the next part must arrive."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from holdfast.runtime.http_doors import body_limits
from holdfast.runtime.http_doors.body_limits import limited

TYPED = frozenset({("POST", "/typed")})
STREAMS = frozenset({("POST", "/stream")}) | TYPED


def status_of(path: str, size: int, seconds: float) -> int:
    """Return the status of a request whose body has two parts of a size, the second one after some time."""
    sent = 0

    async def app(_scope: Any, receive: Any, _send: Any) -> None:
        while (await receive()).get("more_body"):
            pass

    async def receive() -> dict[str, Any]:
        nonlocal sent
        sent += 1
        if sent == 2:
            await asyncio.sleep(seconds)
        return {"type": "http.request", "body": b"x" * size, "more_body": sent == 1}

    async def ask() -> int:
        scope = {"type": "http", "method": "POST", "path": path}
        try:
            await limited(app, STREAMS, TYPED)(scope, receive, None)  # type: ignore[arg-type]
        except HTTPException as error:
            return error.status_code
        return 200

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("path", "size", "seconds", "status"),
    [
        ("/whole", 10, 0, 200),
        ("/whole", 10, 0.3, 408),
        ("/whole", 60, 0, 413),
        ("/stream", 60, 0, 200),
        ("/stream", 60, 0.3, 408),
        ("/typed", 60, 0.3, 200),
    ],
)
def test_bodies_have_the_limits_of_their_kind(
    monkeypatch: pytest.MonkeyPatch, path: str, size: int, seconds: float, status: int
) -> None:
    """What is made while it is sent may take any time, what is read as it comes may have any size."""
    monkeypatch.setattr(body_limits, "MOST", 100)
    monkeypatch.setattr(body_limits, "PART_SECONDS", 0.05)
    assert status_of(path, size, seconds) == status


@pytest.mark.parametrize(("path", "status"), [("/whole", 408), ("/stream", 200), ("/typed", 200)])
def test_a_body_that_drips_has_an_end(monkeypatch: pytest.MonkeyPatch, path: str, status: int) -> None:
    """Unless it may have any size: then each part is used when it comes."""
    monkeypatch.setattr(body_limits, "WHOLE_SECONDS", 0.1)
    assert status_of(path, 10, 0.3) == status
