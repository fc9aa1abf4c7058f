"""Sockets into a session: with the bytes of a server at a port of it, or of one of ssh, or a kernel's frames.

Each lasts as long as both ends want, and no longer than until the next capture.
"""

from __future__ import annotations

import json

from holdfast.errors import ProtocolError
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.session_channel import SessionChannel

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

_READY = b"\n"
"""Confirms that the answer was read: data after it is not a frame."""


def port_socket(channel: SessionChannel, port: int) -> socket.socket:
    """Connect to a port of the session's loopback; the caller closes the socket.

    Raises:
        PortClosed: nothing listens there.
        SessionBusy: there are too many such connections.
        GuestError, SessionError: the session cannot be reached.
    """
    return _connected(channel, "port_connect", port=port)


def ssh_socket(channel: SessionChannel, host_key: str, client_keys: str) -> socket.socket:
    """Wake the session if it sleeps, and connect to a server of ssh of its own; the caller closes the socket.

    Args:
        host_key: its private key, by which the client knows the host, in OpenSSH's form.
        client_keys: the public keys that it lets in, as in `authorized_keys`.

    Raises:
        SessionBusy: there are too many such connections.
        GuestError, SessionError: the session cannot be reached, or lacks such a server.
    """
    payload = json.dumps({"host_key": host_key, "client_keys": client_keys}).encode()
    return _connected(channel.awake(), "ssh_connect", payload, wakes=True)


def _connected(
    channel: SessionChannel, op: str, payload: bytes = b"", *, wakes: bool = False, **args: int
) -> socket.socket:
    client = channel.client()
    with channel.explained():
        connection = channel.reconnection(wakes=wakes).run(client.connect)
        try:
            answer = connection.ask(op, payload, **args, **client.who)
            if wire_fields.event(answer) != "connected":
                raise ProtocolError("cannot understand the session: it does not connect to its server")
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
