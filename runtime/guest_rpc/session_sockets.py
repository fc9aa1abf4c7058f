"""Sockets into a session: one with the bytes of a server at a port of it, one with a kernel's frames.

Each lasts as long as both ends want, and no longer than until the next capture.
"""

from __future__ import annotations

from holdfast.errors import ProtocolError
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.session_channel import SessionChannel

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

_READY = b"\n"
"""Says that the answer was read: what comes after it is no frame."""


def port_socket(channel: SessionChannel, port: int) -> socket.socket:
    """Connect to a port of the session's loopback; the caller closes the socket.

    Raises:
        PortClosed: nothing listens there.
        SessionBusy: there are too many such connections.
        GuestError, SessionError: the session cannot be reached.
    """
    client = channel.client()
    with channel.explained():
        connection = channel.reconnection().run(client.connect)
        try:
            answer = connection.ask("port_connect", b"", port=port, **client.who)
            if wire_fields.event(answer) != "connected":
                raise ProtocolError("cannot understand the session: it does not connect to its port")
            connection.socket.sendall(_READY)
            connection.socket.settimeout(None)
        except BaseException:
            connection.close()
            raise
    return connection.socket


def front_end_socket(
    channel: SessionChannel, kernel: str, *, client: str, link: str, after: int | None
) -> socket.socket:
    """Ask to be joined to a kernel, whose answer comes on the socket; the caller closes it.

    Args:
        kernel: its name.
        client: the front end, by which it is known when it comes back.
        link: this connection and those that continue it.
        after: the offset of the last message that the front end has; None if that is not known here.

    Raises:
        GuestError, SessionError: the session cannot be reached.
    """
    client_ = channel.client()
    asked: dict[str, Any] = {"kernel": kernel, "client": client, "link": link}
    if after is not None:
        asked["after"] = after
    with channel.explained():
        return channel.reconnection().run(lambda: client_.open("front_end", **asked)).socket
