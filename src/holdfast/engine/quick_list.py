"""The running containers of a home, asked from the engine without its SDK.

One request of the Docker API (GET /containers/json) over the engine's unix socket; loading the SDK takes a
hundred times as long. `None` always means "ask the SDK": it reaches engines in other ways, and explains
errors.
"""

from __future__ import annotations

import http.client
import json
import socket
from urllib.parse import quote

from holdfast.engine import engine_place
from holdfast.engine.label_filters import label_filters
from holdfast.errors import EngineUnavailable

PATIENCE = 30.0
"""Seconds for an answer."""
LARGEST = 64 << 20


class _EngineConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket instead of to a host."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self._path)


def running(**labels: str) -> set[str] | None:
    """Return the ids of running containers that have these labels; None without a plain answer."""
    try:
        path = engine_place.find().path
    except EngineUnavailable:
        return None
    if not path:
        return None
    filters = quote(json.dumps({"label": label_filters(labels), "status": ["running"]}))
    connection = _EngineConnection(path)
    try:
        connection.request("GET", f"/containers/json?filters={filters}")
        answer = connection.getresponse()
        data = answer.read(LARGEST)
        if answer.status != http.client.OK or answer.length:  # `length` is what is missing
            return None
        found = json.loads(data)
        return {str(each["Id"]) for each in found} if isinstance(found, list) else None
    except (OSError, http.client.HTTPException, ValueError, TypeError, LookupError):
        return None
    finally:
        connection.close()
