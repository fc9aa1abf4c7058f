"""A front end of Jupyter, in both sub-protocols."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from websockets.sync.client import ClientConnection, connect

from holdfast.runtime.guest.wire import kernel_messages
from holdfast.runtime.jupyter.front_end_socket import V1

PATIENCE = 60
_ids = itertools.count()


class FrontEnd:
    """A front end that speaks one of the sub-protocols."""

    def __init__(self, socket: ClientConnection, client: str) -> None:
        self.socket, self.client = socket, client
        self.binary = socket.subprotocol == V1

    def send(self, channel: str, kind: str, content: dict[str, Any], *buffers: bytes) -> str:
        id_ = f"{self.client}_{next(_ids)}"
        header = {"msg_id": id_, "msg_type": kind, "session": self.client, "username": "", "version": "5.3"}
        if self.binary:
            parts = [json.dumps(each).encode() for each in (header, {}, {}, content)]
            self.socket.send(kernel_messages.pack(channel, [*parts, *buffers]))
        else:
            message = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
            self.socket.send(json.dumps({**message, "channel": channel, "buffers": []}))
        return id_

    def execute(self, code: str) -> str:
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": True}
        return self.send("shell", "execute_request", content)

    def next(self) -> tuple[str, str, dict[str, Any]]:
        """Return the type of the next message, the id of its parent, and its content."""
        data = self.socket.recv(PATIENCE)
        if isinstance(data, bytes):
            assert self.binary
            _, parts = kernel_messages.unpack(data)
            header, parent, _, content = (json.loads(part) for part in parts[:4])
            return header["msg_type"], parent.get("msg_id", ""), content
        message = json.loads(data)
        return message["msg_type"], message["parent_header"].get("msg_id", ""), message["content"]

    def done(self, asked: str) -> tuple[dict[str, Any], str]:
        """Return the reply to an execution, and its output."""
        reply, text, idle = None, "", False
        while reply is None or not idle:
            kind, parent, content = self.next()
            if parent == asked:
                reply = content if kind == "execute_reply" else reply
                text += content["text"] if kind == "stream" else ""
                idle = idle or content == {"execution_state": "idle"}
        return reply, text

    def value(self, code: str) -> str:
        return self.done(self.execute(f"print({code})"))[1].strip()


@contextmanager
def joined(
    websocket: str, headers: Mapping[str, str], client: str, kernel: str, *, binary: bool = False
) -> Iterator[FrontEnd]:
    """Yield a front end whose session is `client`; `websocket` is the address of the server."""
    url = f"{websocket}/api/kernels/{kernel}/channels?session_id={client}"
    offered: Any = [V1] if binary else None
    with connect(url, additional_headers=headers, subprotocols=offered, proxy=None, max_size=None) as opened:
        yield FrontEnd(opened, client)
