"""Types text into a terminal of a session, in pieces that fit into a request."""

from __future__ import annotations

from holdfast.errors import InvalidArgument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.guest.wire.protocol import Frame
    from holdfast.runtime.guest_rpc.patience import Patience
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel

PIECE = 1 << 20


def send(
    channel: SessionChannel, op: str, data: bytes, patience: Patience | None = None, **target: Any
) -> Frame | None:
    """Type all the data, and return the reply to the last piece; None if there are none.

    A session that sleeps is woken.

    Raises:
        GuestDisconnected: the terminal was not read, for half a minute or until the patience was over.
        InvalidArgument: the terminal would truncate a line of it. The pieces before were typed.
    """
    answer = None
    for start in range(0, len(data), PIECE):
        try:
            answer = _typed(channel, op, data[start : start + PIECE], patience, target)
        except InvalidArgument as error:
            typed = f"only its first {start} bytes were typed" if start else "nothing was typed"
            raise InvalidArgument(f"{error}; {typed}", hint=error.hint) from error
    return answer


def _typed(
    channel: SessionChannel, op: str, piece: bytes, patience: Patience | None, target: dict[str, Any]
) -> Frame:
    if patience is None:
        return channel.request(op, piece, uses=True, **target)
    client = channel.awake().client()
    with channel.explained(), channel.reconnection(wakes=True).run(client.connect) as connection:
        patience.hold(connection)
        if (left := patience.left()) is not None:
            connection.socket.settimeout(max(0.01, left))
        return connection.ask(op, piece, **{**client.who, **target})
