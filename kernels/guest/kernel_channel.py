"""ZeroMQ sockets to a kernel, read by the event loop.

pyzmq's own asyncio sockets are not used: their readers outlive a closed socket and then take the place of
another socket's reader that got the same file descriptor, whose messages would be lost.

Some kernels name their sockets as addresses of the network are: `c:1` where Jupyter has `c-1`. They put
transport, address and port together for themselves, whatever the transport; each of their sockets gets a link
with the name by which it is looked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

MESSAGES_PER_TURN = 32
RECONNECT_MS = 10
"""A kernel's sockets appear shortly after its process; the default would lose 100 ms at every start."""
_SECONDS = 0.05
"""Between two looks; an interpreter needs more to start."""


class KernelChannel:
    """Calls `hear` with the parts of every message until it is closed."""

    def __init__(self, socket: Any, hear: Callable[[list[bytes]], None]) -> None:
        from zmq import NOBLOCK, Again

        self.socket = socket
        self._flags, self._empty = NOBLOCK, Again
        self._hear = hear
        self._loop = asyncio.get_running_loop()
        self._fd: int = socket.FD
        self._closed = False
        self._loop.add_reader(self._fd, self.look)
        self.look_soon()

    def look_soon(self) -> None:
        """Look for messages in the loop's next turn.

        The descriptor only signals, once, that something changed. Sending also consumes that signal, so this
        is to be called after every send.
        """
        self._loop.call_soon(self.look)

    def look(self) -> int:
        """Process some or all of the pending messages, and return their number."""
        for count in range(MESSAGES_PER_TURN):
            if self._closed:
                return count
            try:
                parts = self.socket.recv_multipart(self._flags)
            except self._empty:
                return count
            self._hear(parts)
        self.look_soon()
        return MESSAGES_PER_TURN

    def detach(self) -> None:
        """Stop reading."""
        self._closed = True
        self._loop.remove_reader(self._fd)

    def close(self) -> None:
        """Close the socket, dropping unsent data."""
        self.detach()
        self.socket.close(linger=0)


class Monitor:
    """Calls `joined` when the peer of a socket that is about to be connected has answered."""

    def __init__(self, socket: Any, joined: Callable[[], None]) -> None:
        from zmq import Event

        self._socket = socket
        self._channel = KernelChannel(
            socket.get_monitor_socket(Event.HANDSHAKE_SUCCEEDED), lambda _: joined()
        )

    def close(self) -> None:
        """Stop watching."""
        self._channel.detach()
        self._socket.disable_monitor()
        self._channel.close()


def new_socket(channel: str, identity: bytes) -> Any:
    """Return an unconnected socket for a kernel's channel."""
    import zmq

    socket: Any = zmq.Context.instance().socket(zmq.SUB if channel == "iopub" else zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
    if channel == "iopub":
        socket.setsockopt(zmq.SUBSCRIBE, b"")
    else:
        socket.setsockopt(zmq.IDENTITY, identity)
    return socket


def link_sockets(address: Path, ports: Iterable[int]) -> None:
    """Make the missing links for existing sockets; `address` is shared by all, without port."""
    for port in ports:
        named = address.with_name(f"{address.name}:{port}")
        wanted = address.with_name(f"{address.name}-{port}")
        if named.is_socket() and not wanted.is_socket():
            with suppress(OSError):  # the folder is the user's, who may have put anything there
                wanted.symlink_to(named.name)


async def keep_sockets_linked(address: Path, ports: Iterable[int]) -> None:
    """Make links as sockets appear, until this is cancelled."""
    ports = list(ports)
    while True:
        link_sockets(address, ports)
        await asyncio.sleep(_SECONDS)
