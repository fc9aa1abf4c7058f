"""Answers to streaming RPCs: a call in a thread, its events as messages."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any

from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.runtime.e2b import connect_frames, e2b_errors
from holdfast.runtime.e2b.sandbox_caller import SandboxCaller
from holdfast.runtime.serve.calls.followed_calls import ServedCall
from holdfast.runtime.serve.event_format import Event
from holdfast.runtime.serve.event_streams import CallResponse, StreamedCall

DEADLINE = {"deadline": True}
"""The result of a call whose time was over: the stream ends with that error."""
AHEAD = 0.1
"""Seconds, at most a tenth of the client's time, by which the answer precedes the client's own clock.

Clients before 2.63 wait that long for each message, and then raise a bare timeout of their transport.
"""
KEEPALIVE_SECONDS = 45.0
GONE = 502
"""The status of a sandbox that does not run."""
_KEEPALIVE: dict[str, Any] = {"event": {"keepalive": {}}}


def seconds_given(caller: SandboxCaller) -> float | None:
    """Return how long a stream may take, so that its client still hears of its end; None without a limit.

    Raises:
        InvalidArgument: the header that gives it is not a number.
    """
    return seconds_of(caller.connection.headers.get("connect-timeout-ms"))


def seconds_of(header: str | None) -> float | None:
    """Return the same for the text of the header.

    Raises:
        InvalidArgument: it is not a number.
    """
    if header is None:
        return None
    if not re.fullmatch(r"\d{1,10}", header):
        raise InvalidArgument("cannot read the header connect-timeout-ms: it is no number of milliseconds")
    seconds = int(header) / 1000
    return seconds - min(AHEAD, seconds / 10) or None


async def streamed(
    caller: SandboxCaller, call: ServedCall, seconds: float | None, keepalive: Event = _KEEPALIVE
) -> CallResponse:
    """Return the answer to an RPC in the caller's sandbox.

    What the call emits are messages as they are sent. Its result is not sent; `DEADLINE` is an error.
    `keepalive` is sent when there is nothing else.

    Raises:
        HoldfastError: it failed before it had emitted any.
    """
    running = StreamedCall(caller, caller.sandbox, seconds, call)
    await running.begin()
    pulse = KEEPALIVE_SECONDS
    given = caller.connection.headers.get("keepalive-ping-interval", "")
    if re.fullmatch(r"\d{1,4}", given):
        pulse = max(1.0, int(given) * 0.9)
    messages = _messages(running, pulse, keepalive, lambda: answer.cut())
    answer = CallResponse(running, messages, connect_frames.MEDIA_TYPE)
    return answer


async def _messages(
    call: StreamedCall, pulse: float, keepalive: Event, cut: Callable[[], None]
) -> AsyncIterator[bytes]:
    """Yield the frames of an answer.

    One whose sandbox is gone is cut, as by the proxy of E2B: clients in JavaScript ask then whether it runs.
    """
    async for event in call.events(pulse):
        if event is None:
            yield connect_frames.message(keepalive)
        elif isinstance(event, HoldfastError):
            status = e2b_errors.status_of(event)
            if status == GONE:
                cut()
            else:
                yield connect_frames.last(e2b_errors.rpc_code(status), e2b_errors.sentence(event))
        elif event.get("event") == "result":
            yield _end(event)
        else:
            yield connect_frames.message(event)


def _end(result: Event) -> bytes:
    if result.get("deadline"):
        return connect_frames.last("deadline_exceeded", "the time that the client gave is over")
    return connect_frames.last()
