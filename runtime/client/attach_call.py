"""The call that joins this process's terminal to a session's.  Pure."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.runtime.client import client_values
from holdfast.runtime.client.channel_calls import CHANNEL, ChannelCall

PIECE = 256 << 10
"""Bytes of input in one message."""


class AttachCall(ChannelCall[str]):
    """Output is passed on as it comes; the result is why it ended.

    Over another connection the terminal is painted again.
    """

    def __init__(self, session: str, how: Mapping[str, Any], show: Callable[[bytes], None]) -> None:
        super().__init__(session, "attach", how)
        self._show = show
        self.connection: Any = None
        self.begun = threading.Event()
        """Set once there is a connection by which something can be typed."""

    def linked(self, connection: Any) -> None:
        """Note the connection over which it was sent."""
        self.connection = connection
        self.begun.set()

    def typing(self, data: bytes) -> list[str]:
        """Return the messages that type bytes."""
        pieces = [data[start : start + PIECE] for start in range(0, len(data), PIECE)]
        return [
            json.dumps({"channel": CHANNEL, "type_base64": base64.b64encode(each).decode()})
            for each in pieces
        ]

    def resizing(self, rows: int, cols: int) -> str:
        """Return the message that reports another size, which a call over another connection begins with."""
        self.args |= {"rows": rows, "cols": cols}
        return json.dumps({"channel": CHANNEL, "resize": [rows, cols]})

    def heard(self, told: Mapping[str, Any]) -> None:
        """Take an event."""
        if told["event"] == "output":
            self._show(client_values.data_in(told, "output"))

    def _result(self, told: Mapping[str, Any]) -> str:
        return str(told.get("reason") or "closed")

    def _goes_on(self, result: str) -> bool:
        return result == "left"

    def _continue(self) -> None:
        self.args |= {"take": False}
