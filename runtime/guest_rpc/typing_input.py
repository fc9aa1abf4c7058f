"""Types text into a terminal of a session, in pieces that fit into a request."""

from __future__ import annotations

from holdfast.errors import InvalidArgument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.guest.wire.protocol import Frame
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel

PIECE = 1 << 20


def send(line: SessionChannel, op: str, data: bytes, **target: Any) -> Frame | None:
    """Type all of it, and return the reply to its last piece; None if there is nothing to type.

    Raises:
        InvalidArgument: the terminal would truncate a line of it. The pieces before were typed.
    """
    answer = None
    for start in range(0, len(data), PIECE):
        try:
            answer = line.request(op, data[start : start + PIECE], **target)
        except InvalidArgument as error:
            typed = f"only its first {start} bytes were typed" if start else "nothing was typed"
            raise InvalidArgument(f"{error}; {typed}", hint=error.hint) from error
    return answer
