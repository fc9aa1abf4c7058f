"""Answers that say what is being done, from the application to the client that reads them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.errors import HoldfastError, ProtocolError, SessionNotFound
from holdfast.runtime.client.http_call import MEDIA_TYPE, StepLines
from holdfast.runtime.operations import step
from holdfast.runtime.operations.step import Step
from holdfast.runtime.serve.step_streams import StepStreams

Body = Callable[[], Awaitable[None]]
JSON = [(b"content-type", b"application/json")]


def report_step(text: str, done: int | None = None, total: int | None = None) -> None:
    """Report a step as an operation does, which does not know doors."""
    watcher = step.watcher_of_call()
    if watcher is not None:
        watcher(Step(text, done, total))


async def shown() -> None:
    """Let the steps be written."""
    await asyncio.sleep(0.01)


def answered(work: Body, status: int, answer: Any, *, asks: bool = True) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of an application that does some work and then answers."""
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await work()
        await send({"type": "http.response.start", "status": status, "headers": JSON})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"holdfast-steps", b"1")] if asks else []
    asyncio.run(StepStreams(app)({"type": "http", "headers": headers}, None, send))  # type: ignore[arg-type]
    begin, *parts = sent
    assert not parts[-1].get("more_body", False)
    found = {name.decode(): value.decode() for name, value in begin["headers"]}
    return begin["status"], found, b"".join(part["body"] for part in parts)


async def forks() -> None:
    """Do what has two steps, the second in a thread."""
    report_step("freezing work")
    await shown()
    await asyncio.to_thread(report_step, "restoring work", 1, 2)
    await shown()


def read(body: bytes, pieces: int = 7) -> tuple[list[Step | None], Any]:
    """Return the steps and the answer that a client reads, in small pieces."""
    steps: list[Step | None] = []
    lines = StepLines(steps.append)
    for at in range(0, len(body), pieces):
        lines.feed(body[at : at + pieces])
    return steps, lines.answer()


def test_steps_come_before_the_answer() -> None:
    """Also steps of threads, with amounts; the end is None, and the answer is the same as without steps."""
    status, headers, body = answered(forks, 201, {"name": "ä"})
    assert (status, headers["content-type"]) == (200, MEDIA_TYPE)
    steps, answer = read(body)
    assert steps == [Step("freezing work"), Step("restoring work", 1, 2), None]
    assert answer == {"name": "ä"}


def test_an_error_is_raised_after_steps_as_without() -> None:
    """By the client, of its class."""
    error = {"error": {"code": "session_not_found", "message": "cannot find it", "hint": ""}}
    with pytest.raises(SessionNotFound, match="cannot find it"):
        read(answered(forks, 404, error)[2])


@pytest.mark.parametrize("asks", [True, False])
def test_requests_without_steps_are_answered_as_ever(*, asks: bool) -> None:
    """With its own status, and as one JSON value; so is an operation with steps, if they are not
    requested."""
    status, headers, body = answered(shown if asks else forks, 404, {"a": 1}, asks=asks)
    assert (status, headers["content-type"], json.loads(body)) == (404, "application/json", {"a": 1})


def test_a_failure_of_the_server_is_not_an_end() -> None:
    """The answer is cut; the client does not take the steps for success."""

    async def fails() -> None:
        await forks()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        answered(fails, 200, None)
    with pytest.raises(ProtocolError, match="not steps and an answer"):
        read(b'{"step":{"text":"freezing work"}}\n')


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\n",
        b"[]\n",
        b"[" * 100_000 + b"\n",
        b'{"status":200}\n{"status":200}\n',
        b'{"status":"200"}\n',
        b'{"step":{"text":7}}\n',
    ],
)
def test_a_hostile_server_is_refused_in_one_line(body: bytes) -> None:
    """Neither lines of an unexpected form nor two answers are taken."""
    with pytest.raises(HoldfastError, match="cannot understand the server"):
        read(body, 1000)


def test_texts_of_a_server_are_safe_to_show() -> None:
    """Control characters are taken out, and amounts that are not numbers left out."""
    line = {"step": {"text": "a\x1b]0;x\x07" + "b" * 1000, "done": True, "total": "x"}}
    steps, _ = read(json.dumps(line).encode() + b'\n{"status":204,"answer":null}\n')
    first = steps[0]
    assert first is not None
    assert "\x1b" not in first.text
    assert len(first.text) <= 300
    assert (first.done, first.total) == (None, None)


@pytest.mark.parametrize("turns", range(8))
def test_a_step_at_the_moment_of_the_end_does_not_hold_up_the_answer(turns: int) -> None:
    """The writer of steps is cancelled just as it wakes, in whichever turn of the loop."""

    async def work() -> None:
        report_step("freezing work")
        await shown()
        report_step("resuming work")
        for _ in range(turns):
            await asyncio.sleep(0)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await work()
        await send({"type": "http.response.start", "status": 200, "headers": JSON})
        await send({"type": "http.response.body", "body": b"{}"})

    async def answer() -> None:
        async def send(_: Any) -> None:
            pass

        headers = [(b"holdfast-steps", b"1")]
        answering = StepStreams(app)({"type": "http", "headers": headers}, None, send)  # type: ignore[arg-type]
        assert (await asyncio.wait({asyncio.ensure_future(answering)}, timeout=5))[0]

    asyncio.run(answer())
