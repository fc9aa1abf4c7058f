"""The conversation with the host: JSON lines over one unix socket, one request per connection."""

from __future__ import annotations

import json
import select
import socket


class HostChannel:
    """Sends events; receives the host's decisions. A host that went away counts as having refused."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = b""
        self._closed = False

    def fileno(self) -> int:
        """Return the descriptor, for select(2)."""
        return self._connection.fileno()

    def send(self, event: str, **fields: object) -> None:
        """Send the host an event; a vanished host is not an error here."""
        # File names may not be UTF-8; JSON readers need not accept lone surrogates.
        line = json.dumps({"event": event, **fields}, ensure_ascii=False) + "\n"
        try:
            self._connection.sendall(line.encode("utf-8", "replace"))
        except OSError:
            self._closed = True

    def receive(self, limit: int) -> bytes | None:
        """Return the next line without its end; None when the host has left or the line is longer than
        `limit`.
        """
        while b"\n" not in self._buffer:
            if len(self._buffer) > limit or not self._fill():
                return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def ready(self, timeout: float) -> bool:
        """True when `receive` would not wait. Seconds."""
        if b"\n" in self._buffer or self._closed:
            return True
        return bool(select.select([self._connection], [], [], timeout)[0])

    def _fill(self) -> bool:
        if self._closed:
            return False
        try:
            data = self._connection.recv(65536)
        except OSError:
            data = b""
        self._closed = not data
        self._buffer += data
        return bool(data)
