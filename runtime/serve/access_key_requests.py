"""Requests with an access key: the operations it opens, while it is valid.

A request is answered by a task of its own, which is cancelled within a second after the key was revoked or
has expired: a stream ends, and a WebSocket is closed. Knows neither operations nor scopes.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

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


def opened_with(key: AccessKey, rules: Admission, scope: Scope, app: App) -> App:
    """Return an application as a key opens it; the request is noted to have that key."""
    scope[KEY] = key

    async def while_valid(scope: Scope, receive: Receive, send: Send) -> None:
        answering = asyncio.ensure_future(app(scope, receive, send))
        try:
            while not (await asyncio.wait({answering}, timeout=VALID_SECONDS))[0]:
                if rules.key_of(key.id) is None:
                    answering.cancel()
                    await asyncio.wait({answering})
                    if scope["type"] == "websocket":
                        with suppress(RuntimeError):  # it has closed it by itself
                            await send(
                                {
                                    "type": "websocket.close",
                                    "code": NO_LONGER,
                                    "reason": "the key is revoked",
                                }
                            )
                    return
        finally:
            answering.cancel()
        answering.result()

    return while_valid
