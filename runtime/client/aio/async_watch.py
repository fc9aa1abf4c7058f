"""A watch of files of a session over a URL."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from types import TracebackType
from typing import Self

from holdfast.runtime.client.channel_calls import WatchCall
from holdfast.runtime.files.file_tree import WatchedChange

_OVER = object()


class AsyncFileWatch:
    """Changes in one folder, or of one file, as `FileWatch` has them. To be closed.

    It has begun when it exists. It ends when what is watched is removed, or given another name; `ended` is
    true then. If the connection to the server is lost, the iteration raises `ServerUnavailable`, because
    changes may have been missed.
    """

    def __init__(self, call: WatchCall, messages: AsyncGenerator[None]) -> None:
        self._call, self._messages = call, messages

    @property
    def path(self) -> str:
        """The absolute path of what is watched, without links."""
        return self._call.path or ""

    @property
    def ended(self) -> bool:
        """True if what is watched is gone."""
        return bool(self._call.result)

    async def __aiter__(self) -> AsyncIterator[WatchedChange]:
        """Yield changes until what is watched is gone, or the time is over."""
        while True:
            while self._call.found:
                yield self._call.found.popleft()
            if self._call.ended or await anext(self._messages, _OVER) is _OVER:
                return

    async def close(self) -> None:
        """End it."""
        await self._messages.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()


async def begun(call: WatchCall, messages: AsyncGenerator[None]) -> AsyncFileWatch:
    """Return the watch once the server has begun it."""
    while call.path is None and await anext(messages, _OVER) is not _OVER:
        pass
    return AsyncFileWatch(call, messages)
