"""A server for the calls of this process alone: in a thread, on a unix socket in a folder of its own."""

from __future__ import annotations

import secrets
import socket
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.base.home import Home
from holdfast.runtime.client.client_address import ClientAddress
from holdfast.runtime.http_doors import door_setup
from holdfast.runtime.operations.context import no_progress


class PrivateServer:
    """One server; its token is known to this process only.

    Raises:
        InvalidArgument: the packages of a server are not installed.
    """

    def __init__(self, home: Home) -> None:
        door_setup.check_packages("serve", "use a home under asyncio")
        from holdfast.runtime.http_doors import door_sockets
        from holdfast.runtime.http_doors.admission import Admission
        from holdfast.runtime.http_doors.request_limits import RequestRate
        from holdfast.runtime.serve import server_app
        from holdfast.runtime.serve.api_server import ApiServer
        from holdfast.runtime.serve.callers import Callers

        self._folder = TemporaryDirectory(prefix="holdfast-")
        path, token = Path(self._folder.name) / "socket", secrets.token_hex(24)
        self._opened: socket.socket = door_sockets.unix_listener(path)
        callers = Callers(home.create(), no_progress)
        app = server_app.application(callers, Admission(token, None), RequestRate(0, 1))
        self._server = ApiServer(app, callers)
        self.address = ClientAddress("http://localhost", str(path), token)
        # Requests wait in the socket until it answers.
        threading.Thread(target=self._run, name="holdfast-server", daemon=True).start()

    def close(self) -> None:
        """Let it end. What its calls follow continues."""
        self._server.end()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._opened])
        finally:
            self._opened.close()
            self._folder.cleanup()
