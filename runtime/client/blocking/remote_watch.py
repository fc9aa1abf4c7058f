# Made by setup/blocking from ../aio/async_watch.py; do not edit.
"""A watch of files of a session over a URL."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from types import TracebackType
from typing import Self

from holdfast.runtime.client.channel_calls import WatchCall
from holdfast.runtime.files.file_tree import WatchedChange

_OVER = object()


class RemoteFileWatch:
    """Changes in one folder, or of one file, as `FileWatch` has them. To be closed.

    It has begun when it exists. It ends when what is watched is removed, or given another name; `ended` is
    true then. If the connection to the server is lost, the iteration raises `ServerUnavailable`, because
    changes may have been missed.
    """

    def __init__(self, call: WatchCall, messages: Generator[None]) -> None:
        self._call, self._messages = call, messages

    @property
    def path(self) -> str:
        """The absolute path of what is watched, without links."""
        return self._call.path or ""

    @property
    def ended(self) -> bool:
        """True if what is watched is gone."""
        return bool(self._call.result)

    def __iter__(self) -> Iterator[WatchedChange]:
        """Yield changes until what is watched is gone, or the time is over."""
        while True:
            while self._call.found:
                yield self._call.found.popleft()
            if self._call.ended or next(self._messages, _OVER) is _OVER:
                return

    def close(self) -> None:
        """End it."""
        self._messages.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


def begun(call: WatchCall, messages: Generator[None]) -> RemoteFileWatch:
    """Return the watch once the server has begun it."""
    while call.path is None and next(messages, _OVER) is not _OVER:
        pass
    return RemoteFileWatch(call, messages)
