"""Listens on the session's socket and hands each request to its operation."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from pathlib import Path

from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.wire.call import ClientCall, Operations
from holdfast.runtime.guest.wire.connection import ClientConnection, RequestRefused
from holdfast.runtime.guest.wire.protocol import VERSION, Frame, is_understood

BACKLOG = 128
AGAIN = 0.2
"""Seconds between two attempts to create the socket in a full folder."""
_LOOKS = (
    "prepare moment look files holdings journal kernel_specs kernel_variables read recording job_list "
    "job_read hooks captures check_syntax file_look file_list file_read file_find file_watch program_list"
)
LOOKING = frozenset(_LOOKS.split())
"""Operations that change nothing in the session; all others must be assumed to."""
_RUNS = frozenset(
    ("exec", "wait", "cell", "cell_after", "job_start", "job_wait", "program_start", "program_follow")
)
"""Operations that start or follow what their `id` names."""

logger = logging.getLogger(__name__)


class Server:
    """One listening socket, which can be closed with all its connections and opened again."""

    def __init__(self, path: Path, guest: Guest, operations: Operations) -> None:
        self._path = path
        self._guest = guest
        self._operations = operations
        self._server: asyncio.Server | None = None
        self._connections: set[ClientConnection] = set()

    @property
    def connected(self) -> bool:
        """True while there is a connection."""
        return bool(self._connections)

    async def listen(self) -> None:
        """Begin to listen."""
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(str(self._path))
            self._restrict()
            loop = asyncio.get_running_loop()
            self._server = await loop.create_unix_server(self._connection, sock=listener, backlog=BACKLOG)
        except BaseException:
            listener.close()
            raise

    async def listen_again(self) -> None:
        """Listen as soon as the folder has room for a socket: a session can have filled it."""
        while True:
            try:
                await self.listen()
            except OSError as error:
                logger.warning("cannot listen: %s", error)
                await asyncio.sleep(AGAIN)
            else:
                return

    async def close(self, *, spare: ClientConnection | None = None) -> None:
        """Stop listening and drop every connection but one. Their requests continue."""
        loop = asyncio.get_running_loop()
        if self._server:
            for listener in self._server.sockets:
                loop.remove_reader(listener)
        self._path.unlink(missing_ok=True)
        # Connections accepted just now become known to the loop within its next turns. Not before that is the
        # server closed: asyncio neither serves nor closes a connection whose server is closed already.
        for _ in range(3):
            await asyncio.sleep(0)
        if self._server:
            self._server.close()
            self._server = None
        while others := self._connections - {spare}:
            for connection in others:
                connection.abort()
            await asyncio.sleep(0)

    def _connection(self) -> ClientConnection:
        return ClientConnection(self._serve, self._connections)

    def _restrict(self) -> None:
        """Admit only root and the folder's owner: on the host that is the controller's user."""
        self._path.chmod(0o600)
        folder = self._path.parent.stat()
        if os.getuid() == 0:
            os.chown(self._path, folder.st_uid, folder.st_gid)

    async def _serve(self, connection: ClientConnection, frame: Frame) -> None:
        self._guest.arrive()
        version = frame.head.get("v")
        if not is_understood(version):
            raise RequestRefused(
                "version", f"cannot do {frame.op}: this session speaks protocol {VERSION}, not {version}"
            )
        operation = self._operations.get(frame.op)
        if operation is None:
            raise RequestRefused("unknown_op", f"cannot do {frame.op!r}: no such operation")
        past = self._guest.past
        if (
            past is not None and frame.op in _RUNS and frame.head.get("key") is None
        ):  # a key has its own record
            again = frame.head.get("again") is True
            if lost := past.refusal(frame.head.get("id"), again=again):
                raise RequestRefused("outcome_unknown", lost)
        if frame.op not in LOOKING:
            self._guest.requests += 1
        await operation(self._guest, ClientCall(connection, frame))
