"""The running containers of a home, asked from the engine without its SDK.

One request of the Docker API (GET /containers/json) over the engine's unix socket; loading the SDK takes a
hundred times as long. `None` always means "ask the SDK": it reaches engines in other ways, and explains
errors.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Mapping

from holdfast.engine import usual_place


def label_filters(labels: Mapping[str, str]) -> list[str]:
    """Return labels as the engine filters by them: `holdfast_home` is `holdfast.home`."""
    return [f"{key.replace('_', '.')}={value}" for key, value in labels.items()]


PATIENCE = 10.0
"""Seconds for each part of an answer. The SDK, which is asked then, waits longer."""
LARGEST = 64 << 20
_LENGTH = b"content-length"


def running(**labels: str) -> set[str] | None:
    """Return the ids of running containers that have these labels; None without a plain answer."""
    path = usual_place.socket_path() or _path()
    if not path:
        return None
    filters = json.dumps({"label": label_filters(labels), "status": ["running"]})
    quoted = "".join(f"%{byte:02X}" for byte in filters.encode())
    try:
        found = json.loads(_get(path, f"/containers/json?filters={quoted}"))
        return {str(each["Id"]) for each in found} if isinstance(found, list) else None
    except (OSError, ValueError, TypeError, LookupError):
        return None


def _path() -> str | None:
    """Return the path of the engine's socket by all of Docker's rules; None if it has none."""
    from holdfast.engine import engine_place
    from holdfast.errors import EngineUnavailable

    try:
        return engine_place.find().path or None
    except EngineUnavailable:
        return None


def _get(path: str, target: str) -> bytes:
    """Return the body of a complete answer with status 200.

    In HTTP/1.0 the connection ends with the answer, which comes in one piece (RFC 1945).

    Raises:
        OSError: the socket does not answer.
        ValueError: there is another answer.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        sys.audit("holdfast.asks", id(connection), "engine", f"GET {target.partition('?')[0]}")
        connection.settimeout(PATIENCE)
        connection.connect(path)
        connection.sendall(f"GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        answer = bytearray()
        while len(answer) < LARGEST and (block := connection.recv(1 << 16)):
            answer += block
        sys.audit("holdfast.answered", id(connection))
    head, _, body = bytes(answer).partition(b"\r\n\r\n")
    status, *fields = head.lower().split(b"\r\n")
    sizes = [int(value) for name, _, value in (each.partition(b":") for each in fields) if name == _LENGTH]
    if status.split(b" ")[1:2] != [b"200"] or sizes not in ([], [len(body)]):
        raise ValueError(status)
    return body
