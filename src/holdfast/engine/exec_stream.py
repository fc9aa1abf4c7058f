"""The connection to a program that the engine runs in a container: its input, and both of its outputs.

Blocks while it sends; readable, as select(2) sees it, when there is something to receive.
"""

from __future__ import annotations

import socket
import ssl
import struct
from contextlib import suppress
from typing import Any

from holdfast.base.length_prefixed import LengthPrefixed

_PIECE = 64 << 10
_HEAD = struct.Struct(">BxxxI")
"""Before each piece of output: 1 or 2 for the stream, three zeros, and the length (Docker Engine API,
"Attach to a container", stream format)."""
ERRORS = 2
"""The number of standard error; standard output's is 1."""


class ExecStream:
    """A connection that the engine has handed over. `fileno` is for select(2)."""

    def __init__(self, handed_over: Any) -> None:
        self._kept = handed_over  # closes the connection when it is collected
        self._socket: socket.socket = getattr(handed_over, "_sock", handed_over)
        self._socket.settimeout(None)
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._outputs = LengthPrefixed(_HEAD)

    def fileno(self) -> int:
        """Return the descriptor of the connection."""
        return self._socket.fileno()

    def send(self, data: bytes) -> None:
        """Send to the program's standard input.

        Raises:
            EOFError: the connection is lost.
        """
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise EOFError(error.strerror) from error

    def receive(self) -> list[tuple[int, bytes]]:
        """Wait for output; return the number of each stream and its bytes.

        Raises:
            EOFError: the program has ended, or the connection is lost.
        """
        try:
            found = list(self._outputs.feed(self._piece()))
            # What TLS has decrypted already is not seen by select(2).
            while isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
                found += self._outputs.feed(self._piece())
        except OSError as error:
            raise EOFError(error.strerror) from error
        return found

    def _piece(self) -> bytes:
        data = self._socket.recv(_PIECE)
        if not data:
            raise EOFError
        return data

    def close(self) -> None:
        """End the connection, which also ends the program's input."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._kept.close()
        self._socket.close()
