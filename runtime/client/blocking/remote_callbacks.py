"""What callbacks return to a call: a blocking caller cannot give coroutines, which nothing would run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from holdfast.errors import InvalidArgument
from holdfast.runtime.client.channel_calls import ChannelCall

OnInput = Callable[[str, bool], str]


def settled(call: ChannelCall[Any]) -> str | None:
    """Return the line that a callback gave as an answer.

    Raises:
        InvalidArgument: one returned a coroutine. What was called continues.
    """
    line: str | None = call.line
    call.line = None
    returned, call.returned = [*call.returned, line], []
    for each in returned:
        if inspect.isawaitable(each):
            if inspect.iscoroutine(each):
                each.close()
            raise InvalidArgument(
                "cannot use a coroutine function as a callback here: nothing would await it",
                hint="use AsyncHoldfast, or a plain function",
            )
    return line
