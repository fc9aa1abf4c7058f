"""Connections of a door: those that have not shown the token yet are few, and have little time.

A flood of connections without the token closes its own oldest ones, and keeps no caller out.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

FIRST_REQUEST_SECONDS = 5.0
"""For the head of the first request of a connection to arrive; later ones have uvicorn's own limit."""
MOST_STRANGERS = 1024
"""Connections without the token at once; more than one turn of the event loop accepts."""
ADMITTED = "holdfast.admitted"
"""The key of a request's scope under which its admission is noted."""

_strangers: dict[DoorConnection, None] = {}


class DoorConnection(H11Protocol):
    """A connection that is closed if no request arrives in time, or if too many came after it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, and close the oldest of those that have shown nothing."""
        super().connection_made(transport)
        self._waiting = self.loop.call_later(FIRST_REQUEST_SECONDS, self._give_up)
        _strangers[self] = None
        while len(_strangers) > MOST_STRANGERS:
            oldest = next(iter(_strangers))
            del _strangers[oldest]
            if not oldest.has_token:
                oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        _strangers.pop(self, None)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Hand it over to the protocol of WebSockets, which admits or closes it at once."""
        _strangers.pop(self, None)
        self._waiting.cancel()
        super().handle_websocket_upgrade(event)

    @property
    def has_token(self) -> bool:
        """True if its latest request showed the token."""
        return self.scope is not None and bool(self.scope.get(ADMITTED))

    def _give_up(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()
