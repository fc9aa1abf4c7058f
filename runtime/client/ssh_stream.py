"""One connection of ssh to a session behind a server, by a WebSocket: bytes both ways, from descriptors."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import ClientConnection, connect, unix_connect

from holdfast.base.text import plain
from holdfast.errors import HoldfastError, ProtocolError, ServerUnavailable
from holdfast.runtime.client.client_address import ClientAddress
from holdfast.runtime.client.client_errors import error_of
from holdfast.runtime.http_doors.admission import ACTOR_HEADER

PIECE = 64 << 10
CONNECT_SECONDS = 10.0
FIRST_SECONDS = 120.0
"""For the session to wake up, and its server of ssh to start."""
LEAVE_SECONDS = 1.0
"""For the client to leave after the session has ended the connection, in which case it wanted that."""
_LONGEST = 100


class SshStream:
    """An open connection; `host_key` is the public key of the session.

    Args:
        address: of the server.
        session: its name.
        client_key: the public key that is let in.
        actor: the person or agent that connects; None leaves it to the server.

    Raises:
        HoldfastError: the error that the server reports; ServerUnavailable: it does not answer.
    """

    def __init__(self, address: ClientAddress, session: str, client_key: str, actor: str | None) -> None:
        self._connection = _connected(address, session, actor)
        try:
            self._connection.send(json.dumps({"client_key": client_key}))
            told = _told(self._connection.recv(FIRST_SECONDS))
        except (ConnectionClosed, TimeoutError) as error:
            self._connection.close()
            raise ServerUnavailable("cannot connect by ssh: the server has ended the connection") from error
        except HoldfastError:
            self._connection.close()
            raise
        self.host_key = str(told.get("host_key", ""))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._connection.close()

    def joined(self, source: int, target: int) -> str:
        """Pass bytes on until either end has ended; return why the session has, if it was not the client."""
        left = threading.Event()

        def send() -> None:
            with suppress(ConnectionClosed, OSError):
                while data := os.read(source, PIECE):
                    self._connection.send(data)
                left.set()
                self._connection.close()

        threading.Thread(target=send, name="holdfast-ssh", daemon=True).start()
        why = "the connection to the server has ended"
        with suppress(OSError):
            try:
                for message in self._connection:
                    if isinstance(message, str):
                        why = plain(str(_told(message).get("ended", why)), 400)
                        break
                    rest = memoryview(message)
                    while rest:
                        rest = rest[os.write(target, rest) :]
            except ConnectionClosed as error:
                why = plain(error.rcvd.reason, _LONGEST) if error.rcvd and error.rcvd.reason else why
        return "" if left.wait(LEAVE_SECONDS) else why


def _told(message: str | bytes) -> dict[str, Any]:
    """Read a message in JSON.

    Raises:
        HoldfastError: the error that it reports; ProtocolError: it is not valid.
    """
    try:
        found = json.loads(message) if isinstance(message, str) else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ProtocolError("cannot understand the server: it speaks neither of keys nor of an error")
    if "error" in found:
        raise error_of(found)
    return found


def _connected(address: ClientAddress, session: str, actor: str | None) -> ClientConnection:
    uri = address.websocket(f"/v1/sessions/{quote(session, safe='')}/ssh")
    options: dict[str, Any] = {
        "additional_headers": address.headers | ({ACTOR_HEADER: actor} if actor else {}),
        "compression": None,
        "open_timeout": CONNECT_SECONDS,
        "close_timeout": 1,
    }
    try:
        address.check()
        if address.socket is not None:
            made: ClientConnection = unix_connect(address.socket, uri=uri, **options)
        else:
            made = connect(uri, **options)
        return made
    except InvalidStatus as error:
        try:
            raise error_of(json.loads(error.response.body or b"")) from None
        except ValueError:
            raise ProtocolError(
                f"cannot understand the server: it answered {error.response.status_code}"
            ) from None
    except ServerUnavailable:
        raise
    except (OSError, TimeoutError, InvalidHandshake) as error:
        raise ServerUnavailable(
            f"cannot connect by ssh: the server at {address.url} does not answer", hint="`holdfast serve`"
        ) from error
