"""The way of a front end of Jupyter to a kernel of a session: a socket that carries frames both ways.

It lasts as long as both ends want, and no longer than until the next capture.
"""

from __future__ import annotations

from holdfast.runtime.guest_rpc.session_channel import SessionChannel

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any


def front_end_socket(
    line: SessionChannel, kernel: str, *, client: str, link: str, after: int | None
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
    client_ = line.client()
    asked: dict[str, Any] = {"kernel": kernel, "client": client, "link": link}
    if after is not None:
        asked["after"] = after
    with line.explained():
        return line.persistence().run(lambda: client_.open("front_end", **asked)).socket
