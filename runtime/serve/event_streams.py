"""Calls whose events are sent as they come: the call in a thread, its events in the body of the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Header
from starlette.responses import StreamingResponse

from holdfast.errors import HoldfastError
from holdfast.runtime.serve import error_answers, event_format
from holdfast.runtime.serve.callers import ApiCaller
from holdfast.runtime.serve.calls.served_call import ServedCall
from holdfast.runtime.serve.event_format import Form
from holdfast.runtime.serve.streamed_call import CallResponse, StreamedCall

KEEPALIVE_SECONDS = 15.0

LastEvent = Annotated[str | None, Header(alias="Last-Event-ID", pattern=r"^\d{1,15}$")]
"""What a reader of server-sent events sends when it connects again: the last `id` it has seen."""


def place(last: str | None, given: int | None) -> int | None:
    """Return where to begin: where the reader was, else where it says."""
    return given if last is None else int(last)


async def answered(caller: ApiCaller, ref: str, seconds: float | None, call: ServedCall) -> Any:
    """Answer with the result of a call, or with its events if the client accepts those.

    Raises:
        HoldfastError: it failed, before it had any event.
    """
    form = event_format.wanted(caller.request.headers.get("accept", ""))
    if form != event_format.JSON:
        return await stream(caller, ref, seconds, form, call)
    return await caller.patiently(ref, seconds, lambda found, patience: call(found, patience, None))


async def stream(
    caller: ApiCaller, ref: str, seconds: float | None, form: Form, work: ServedCall
) -> StreamingResponse:
    """Return the answer to a call in a session: its events, `result` or `error` last.

    Raises:
        HoldfastError: it failed before it had any.
    """
    call = StreamedCall(caller, ref, seconds, work)
    await call.begin()
    return CallResponse(call, _written(call, form), form)


async def _written(call: StreamedCall, form: Form) -> AsyncIterator[bytes]:
    """Yield the events of a call as they are sent."""
    async for event in call.events(KEEPALIVE_SECONDS):
        if event is None:
            yield event_format.pulse(form)
        elif isinstance(event, HoldfastError):
            yield event_format.written({"event": "error", **error_answers.body_of(event)}, form)
        else:
            yield event_format.written(event, form)
