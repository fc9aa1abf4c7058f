"""A probe of a port from inside the session: bounded in time and bytes."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import Any

PATIENCE = 1.0
GREETING = 0.05
"""Seconds within which a server that speaks first (SSH, SMTP, MySQL) sends its greeting."""
NO_HTTP = frozenset({3306, 5432, 5672, 6379, 9092, 11211, 27017})
"""Ports of databases and queues: they would log a complaint about the request."""
_REQUEST = b"HEAD / HTTP/1.0\r\nHost: localhost\r\nUser-Agent: holdfast\r\n\r\n"
_MAX_ANSWER = 1024
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? (\d{3})[^\r\n]{0,200}")


async def probe(address: str, port: int, *, speak: bool, patience: float = PATIENCE) -> dict[str, Any]:
    """Connect, and report the outcome; with `speak`, also the reply of a web server.

    `answer` is accepted, refused, timeout or unreachable. A server that sends a greeting is sent nothing; and
    no server is sent anything that would change its state: HEAD is safe, see RFC 9110, 9.2.1.
    """
    try:
        async with asyncio.timeout(patience):
            reader, writer = await asyncio.open_connection(address, port, limit=4096)
    except TimeoutError:
        return {"answer": "timeout"}
    except ConnectionRefusedError:
        return {"answer": "refused"}
    except OSError as error:
        return {"answer": "unreachable", "why": error.strerror or str(error)}
    found: dict[str, Any] = {"answer": "accepted"}
    try:
        if speak and port not in NO_HTTP:
            found.update(await _spoken(reader, writer, patience))
    finally:
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(patience):
                await writer.wait_closed()
    return found


async def _spoken(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience: float
) -> dict[str, Any]:
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(GREETING):
            return parse_reply(await reader.read(_MAX_ANSWER))
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(patience):
            writer.write(_REQUEST)
            await writer.drain()
            return parse_reply(await reader.read(_MAX_ANSWER))
    return {}


def parse_reply(data: bytes) -> dict[str, Any]:
    """Return what the first bytes of a reply say: an HTTP status, or else the first line, shortened."""
    if found := _STATUS.match(data):
        return {"http_status": int(found[1]), "first_line": _line(found[0])}
    return {"first_line": _line(data)} if data else {}


def _line(data: bytes) -> str:
    return data[:200].split(b"\n")[0].strip().decode("utf-8", "replace")


def reachable(local: str) -> str:
    """Return the address at which a listener on a local address can be reached from inside."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(local, local)  # noqa: S104
