"""The way to a port of a session: a socket whose bytes are those of the server that listens there.

It lasts as long as both ends want, and no longer than until the next capture.
"""

from __future__ import annotations

from holdfast.errors import ProtocolError
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.session_channel import SessionChannel

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

_READY = b"\n"
"""Says that the answer was read: what comes after it is no frame."""


def port_socket(line: SessionChannel, port: int) -> socket.socket:
    """Connect to a port of the session's loopback; the caller closes the socket.

    Raises:
        PortClosed: nothing listens there.
        SessionBusy: there are too many such connections.
        GuestError, SessionError: the session cannot be reached.
    """
    client = line.client()
    with line.explained():
        connection = line.persistence().run(client.connect)
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
