"""A server that is stopped during a long operation: its client is notified, and the log has no failure."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import httpx
import pytest

from holdfast.base.home import Home
from holdfast.runtime.http_doors.admission import Admission
from holdfast.runtime.http_doors.request_limits import RequestRate
from holdfast.runtime.serve import callers as callers_module
from holdfast.runtime.serve import server_app
from holdfast.runtime.serve.callers import ApiCaller, Callers

TOKEN = "a-token-of-this-test"


def test_slow_calls_are_answered_with_503(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as a fork of a large session, whose thread here waits for the test."""
    caplog.set_level(logging.INFO, "holdfast.serve")
    monkeypatch.setattr(callers_module, "LAST_SECONDS", 0.05)
    begun, go = threading.Event(), threading.Event()

    def takes_long(_: ApiCaller, ref: str) -> None:
        begun.set()
        go.wait(60)

    monkeypatch.setattr(ApiCaller, "session", takes_long)

    async def run() -> httpx.Response:
        callers = Callers(Home(tmp_path), lambda _: None)
        app = server_app.application(callers, Admission(TOKEN), RequestRate(0, 1))
        transport = httpx.ASGITransport(app)
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1", headers=headers
        ) as client:
            forking = asyncio.create_task(client.post("/v1/sessions/work/fork", json={}))
            while not begun.is_set():
                await asyncio.sleep(0.01)
            callers.stop()
            answer = await asyncio.wait_for(forking, 60)
            assert callers.brief.running == 1
            go.set()
            while callers.brief.running:
                await asyncio.sleep(0.01)
            return answer

    answer = asyncio.run(run())
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (503, "server_stopping")
    assert "undoes the operation" in error["hint"]
    assert [each.levelname for each in caplog.records] == ["INFO"]
