"""The waiting of a request is ended by its id, before and after it has come, and by its own limit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.http_doors.admission import Admission
from holdfast.runtime.http_doors.request_limits import RequestRate
from holdfast.runtime.serve import callers as callers_module
from holdfast.runtime.serve import server_app
from holdfast.runtime.serve.callers import ApiCaller, Callers

TOKEN = "a-token-of-this-test"
MINE = "0123456789abcdef"


class Waiting:
    """A session whose job waits until the patience of its caller is over."""

    seen: Patience | None = None

    def job(self, _: str) -> Waiting:
        return self

    def send(self, _text: str, *, patience: Patience) -> None:
        patience.begin()
        self.seen = patience
        polling.until(lambda: patience.over, 60)


async def _answered(callers: Callers, before: bool, headers: dict[str, str], waiting: Waiting) -> list[int]:
    app = server_app.application(callers, Admission(TOKEN), RequestRate(0, 1))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app),
        base_url="http://127.0.0.1",
        headers={"authorization": f"Bearer {TOKEN}"},
    ) as client:

        async def end() -> int:
            return (await client.delete(f"/v1/waits/{MINE}")).status_code

        codes = [await end()] if before else []
        sent = client.post("/v1/sessions/work/jobs/it/input", json={"text": "x"}, headers=headers)
        sending = asyncio.create_task(sent)
        while waiting.seen is None and not sending.done():
            await asyncio.sleep(0.01)
        codes += [] if before or "Holdfast-Patience" in headers else [await end()]
        return [*codes, (await asyncio.wait_for(sending, 60)).status_code]


@pytest.mark.parametrize(
    ("before", "headers", "codes"),
    [
        (False, {"X-Request-Id": MINE}, [204, 204]),
        (True, {"X-Request-Id": MINE}, [204, 204]),
        (False, {"Holdfast-Patience": "0.05"}, [204]),
        (False, {"Holdfast-Patience": "soon"}, [400]),
    ],
)
def test_a_request_waits_no_longer(
    before: bool, headers: dict[str, str], codes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Waiting()
    monkeypatch.setattr(ApiCaller, "session", lambda *_: waiting)

    async def run() -> Any:
        callers = Callers(Home(tmp_path), lambda _: None)
        found = await _answered(callers, before, headers, waiting)
        assert callers._patient == {}
        return found

    assert asyncio.run(run()) == codes


def test_requests_that_never_come_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers_module, "MOST_ENDED", 3)
    callers = Callers(Home(tmp_path), lambda _: None)
    for number in range(10):
        callers.end_wait(str(number))
    assert [callers.patience(request=str(number)).ended for number in (6, 7, 9, 9)] == [
        False,
        True,
        True,
        False,
    ]
