"""The gateway on a server of this process, over a supervisor on this machine, without a container."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.runtime.guest.harness import SESSION, Guest

from holdfast.base.home import Home
from holdfast.runtime.cli.served_doors import ServedDoors
from holdfast.runtime.operations.context import no_progress
from holdfast.runtime.serve.api_server import ApiServer

TOKEN = "the-token-of-this-server"
NAME = "work"


@dataclass(frozen=True)
class Gateway:
    """A running server, and the supervisor of its one session."""

    url: str
    guest: Guest
    doors: ServedDoors

    @property
    def websocket(self) -> str:
        return self.url.replace("http:", "ws:")


@contextmanager
def gateway(guest: Guest) -> Iterator[Gateway]:
    """Serve the session of a supervisor."""
    home = Home(guest.folder / "h").create()
    doors = ServedDoors(home, TOKEN, no_progress)
    doors.callers.controller("agent:test").store.add_session(
        NAME, "image", {}, session_id=SESSION, state="running"
    )
    listener = socket.create_server(("127.0.0.1", 0))
    server = ApiServer(doors.app, doors.callers, doors.beside)
    thread = threading.Thread(target=lambda: server.run(sockets=[listener]), daemon=True)
    thread.start()
    try:
        yield Gateway(f"http://127.0.0.1:{listener.getsockname()[1]}", guest, doors)
    finally:
        server.end()
        thread.join(30)
