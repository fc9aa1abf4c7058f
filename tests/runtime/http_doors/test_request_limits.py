"""Limits of bodies, and shares of sessions."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from holdfast.runtime.http_doors import request_limits
from holdfast.runtime.http_doors.request_limits import SessionShares, limited
from holdfast.runtime.serve.answer_forms import status_of
from holdfast.runtime.serve.call_threads import CallThreads, TooManyCalls, TooManyOfSession

TYPED = frozenset({("POST", "/typed")})
STREAMS = frozenset({("POST", "/stream")}) | TYPED


def answered(path: str, size: int, seconds: float) -> int:
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
    """A body made while it is sent can take any time, a body read as it comes can have any size."""
    monkeypatch.setattr(request_limits, "MOST_BODY", 100)
    monkeypatch.setattr(request_limits, "PART_SECONDS", 0.05)
    assert answered(path, size, seconds) == status


@pytest.mark.parametrize(("path", "status"), [("/whole", 408), ("/stream", 200), ("/typed", 200)])
def test_a_body_that_drips_has_an_end(monkeypatch: pytest.MonkeyPatch, path: str, status: int) -> None:
    """Unless it can have any size: then each part is used when it comes."""
    monkeypatch.setattr(request_limits, "WHOLE_SECONDS", 0.1)
    assert answered(path, 10, 0.3) == status


def test_a_silent_session_takes_its_share_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who ask it for more are refused, after a moment, in words of their own."""
    monkeypatch.setattr(request_limits, "TURN_SECONDS", 0.05)

    async def run() -> None:
        threads, go = CallThreads(64, 8), threading.Event()
        asked = [asyncio.ensure_future(threads.run(lambda: go.wait(60), "silent")) for _ in range(64)]
        refused, held = await asyncio.wait(asked, timeout=60, return_when=asyncio.FIRST_EXCEPTION)
        while len(held) > 8:
            refused, held = await asyncio.wait(asked, timeout=1)
        errors = [each.exception() for each in refused]
        assert len(errors) == 56
        assert {type(each) for each in errors} == {TooManyOfSession}
        assert "8 such calls into one session" in str(errors[0])
        assert status_of(TooManyOfSession("")) == 503
        assert threads.running == 8
        monkeypatch.setattr(request_limits, "TURN_SECONDS", 60.0)
        # Another session, and what is of no session, has the rest.
        assert await asyncio.gather(*(threads.run(lambda: 1, "other") for _ in range(40))) == [1] * 40
        assert await threads.run(lambda: 2) == 2
        go.set()
        assert await asyncio.gather(*held) == [True] * 8
        assert await threads.run(lambda: 3, "silent") == 3
        assert threads.running == 0

    asyncio.run(run())


def test_many_quick_calls_at_once_wait_for_one_another() -> None:
    async def run() -> None:
        threads, at_once, most, lock = CallThreads(64, 4), 0, 0, threading.Lock()

        def quick() -> None:
            nonlocal at_once, most
            with lock:
                at_once += 1
                most = max(most, at_once)
            with lock:
                at_once -= 1

        await asyncio.gather(*(threads.run(quick, "one") for _ in range(60)))
        assert most <= 4

    asyncio.run(run())


def test_work_that_cannot_begin_or_fails_gives_its_turn_back() -> None:
    async def run() -> None:
        threads, go = CallThreads(2, 1), threading.Event()
        others = [asyncio.ensure_future(threads.run(lambda: go.wait(60))) for _ in range(2)]
        await asyncio.sleep(0)
        for _ in range(3):
            with pytest.raises(TooManyCalls, match="more than 2"):
                await threads.run(lambda: None, "one")
        go.set()
        await asyncio.gather(*others)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await threads.run(lambda: 1 / 0, "one")
        assert await threads.run(lambda: 1, "one") == 1

    asyncio.run(run())


def test_a_leaving_caller_does_not_lose_a_turn() -> None:
    """Neither in line, nor in the moment in which the turn is given."""

    async def run() -> None:
        shares = SessionShares(1)
        assert shares.take("one")
        first, second, third = (asyncio.ensure_future(shares.wait("one")) for _ in range(3))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait({first})
        shares.give_back("one")
        second.cancel()  # it has the turn, and has not been told
        assert await third
        await asyncio.wait({second})
        shares.give_back("one")
        assert shares.take("one")
        shares.give_back("one")
        assert shares._running == shares._in_line == {}

    asyncio.run(run())


def test_a_line_is_not_endless() -> None:
    async def run() -> None:
        shares = SessionShares(1)
        assert shares.take("one")
        waiting = [asyncio.ensure_future(shares.wait("one")) for _ in range(request_limits.MOST_IN_LINE)]
        await asyncio.sleep(0)
        assert await shares.wait("one") is False
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)

    asyncio.run(run())
