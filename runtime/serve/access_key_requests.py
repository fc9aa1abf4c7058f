"""Requests with an access key: the operations it opens, while it is valid.

The task that answers a request is cancelled within a second after the key was revoked or has expired: a
stream ends, and a WebSocket is closed. Knows neither operations nor scopes.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from holdfast.errors import StoreError
from holdfast.runtime.access.access_keys import AccessKey
from holdfast.runtime.http_doors.admission import KEY, Admission, App, Receive, Scope, Send

NO_LONGER = 1008
"""The code of a WebSocket whose client is no longer let in: RFC 6455, section 7.4.1."""
VALID_SECONDS = 1.0
"""The longest time that a stream continues after its key was revoked."""


@dataclass(frozen=True, slots=True)
class PageVisitor:
    """The user of an open web page: an actor, with the rights of an access key, or of the server's token."""

    actor: str
    key: str = ""
    """The id of the access key that opened the page; empty for the server's token."""


class _ValidKey:
    """Looks once a second whether the key of the current task's request is valid, and cancels it if not."""

    def __init__(self, id_: str, rules: Admission) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._id, self._rules, self._task = id_, rules, task
        self._loop = asyncio.get_running_loop()
        self.is_cut = False
        self._timer = self._loop.call_later(VALID_SECONDS, self._look)

    def _look(self) -> None:
        with suppress(StoreError):  # keys that cannot be read open nothing
            if self._rules.key_of(self._id) is not None:
                self._timer = self._loop.call_later(VALID_SECONDS, self._look)
                return
        self.is_cut = True
        self._task.cancel()

    def end(self) -> None:
        """Look no more.

        Raises:
            CancelledError: the task was cancelled by someone else as well.
        """
        self._timer.cancel()
        if self.is_cut and self._task.uncancel():
            raise asyncio.CancelledError


def opened_with(key: AccessKey, rules: Admission, scope: Scope, app: App) -> App:
    """Return an application as a key opens it; the request is noted to have that key."""
    scope[KEY] = key

    async def while_valid(scope: Scope, receive: Receive, send: Send) -> None:
        watch = _ValidKey(key.id, rules)
        try:
            await app(scope, receive, send)
        except (Exception, asyncio.CancelledError):
            if not watch.is_cut:
                raise
        finally:
            watch.end()
        if watch.is_cut and scope["type"] == "websocket":
            with suppress(RuntimeError):  # it has closed it by itself
                await send({"type": "websocket.close", "code": NO_LONGER, "reason": "the key is revoked"})

    return while_valid
