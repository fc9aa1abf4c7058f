"""What callbacks return to a call: those of an async caller may be coroutines, which are awaited in turn."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.runtime.client.channel_calls import ChannelCall

OnInput = Callable[[str, bool], str] | Callable[[str, bool], Awaitable[str]]


async def settled(call: ChannelCall[Any]) -> str | None:
    """Await what the callbacks of a call returned; return the line that one gave as an answer."""
    returned, call.returned = call.returned, []
    for each in returned:
        if inspect.isawaitable(each):
            await each
    line, call.line = call.line, None
    found: str | None = await line if inspect.isawaitable(line) else line
    return found
