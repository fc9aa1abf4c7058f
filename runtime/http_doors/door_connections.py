"""Connections of a door: those that have not shown the token yet are few, and have little time.

A flood of connections without the token closes its own oldest ones, and keeps no caller out. The head of any
request must be whole within a time.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

FIRST_REQUEST_SECONDS = 5.0
"""For the head of the first request of a connection to arrive, from when it was made."""
NEXT_REQUEST_SECONDS = 30.0
"""For the head of a later request to arrive, from its first byte: uvicorn limits only how long none comes."""
MOST_STRANGERS = 1024
"""Connections without the token at once; more than one turn of the event loop accepts."""
ADMITTED = "holdfast.admitted"
"""The key of a request's scope under which its admission is noted."""

_strangers: dict[DoorConnection, None] = {}


class DoorConnection(H11Protocol):
    """A connection that is closed if no request arrives in time, or if too many came after it."""

    _awaited: RequestResponseCycle | None = None
    """The request after which the head of the next one has begun to arrive."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, and close the oldest of those that have shown nothing."""
        super().connection_made(transport)
        self._waiting = self.loop.call_later(FIRST_REQUEST_SECONDS, self._give_up, None)
        _strangers[self] = None
        while len(_strangers) > MOST_STRANGERS:
            oldest = next(iter(_strangers))
            del _strangers[oldest]
            if not oldest.has_token:
                oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        _strangers.pop(self, None)
        self._waiting.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take the next bytes; those that begin a head must be followed by the rest of it."""
        super().data_received(data)
        latest = self.cycle
        if latest is not None and latest.response_complete and self._awaited is not latest:
            self._awaited = latest
            self._waiting.cancel()
            self._waiting = self.loop.call_later(NEXT_REQUEST_SECONDS, self._give_up, latest)

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Hand it over to the protocol of WebSockets, which admits or closes it at once."""
        _strangers.pop(self, None)
        self._waiting.cancel()
        self._awaited = self.cycle  # no other request follows
        super().handle_websocket_upgrade(event)

    @property
    def has_token(self) -> bool:
        """True if its latest request showed the token."""
        return self.scope is not None and bool(self.scope.get(ADMITTED))

    def _give_up(self, latest: RequestResponseCycle | None) -> None:
        """Close it, unless another request than this one has begun."""
        if self.cycle is latest and not self.transport.is_closing():
            self.transport.close()
