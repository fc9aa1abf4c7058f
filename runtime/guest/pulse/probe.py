"""Tries whether something answers at a port of the session, from inside: bounded in time and bytes."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import Any

PATIENCE = 1.0
GREETING = 0.05
"""Seconds in which a server that speaks first (SSH, SMTP, MySQL) has done so."""
NO_HTTP = frozenset({3306, 5432, 5672, 6379, 9092, 11211, 27017})
"""Databases and queues: they would complain of the request in their logs."""
_REQUEST = b"HEAD / HTTP/1.0\r\nHost: localhost\r\nUser-Agent: holdfast\r\n\r\n"
_MAX_ANSWER = 1024
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? (\d{3})[^\r\n]{0,200}")


async def probe(address: str, port: int, *, speak: bool, patience: float = PATIENCE) -> dict[str, Any]:
    """Connect, and say whether that was accepted; with `speak`, also what a web server answers.

    `answer` is accepted, refused, timeout or unreachable. What greets by itself is not spoken to; neither
    is anything sent to it that would change it: HEAD is safe, see RFC 9110, 9.2.1.
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
            return told(await reader.read(_MAX_ANSWER))
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(patience):
            writer.write(_REQUEST)
            await writer.drain()
            return told(await reader.read(_MAX_ANSWER))
    return {}


def told(data: bytes) -> dict[str, Any]:
    """Return what the first bytes of an answer say: a status of HTTP, or else the first line, shortened."""
    if found := _STATUS.match(data):
        return {"http_status": int(found[1]), "first_line": _line(found[0])}
    return {"first_line": _line(data)} if data else {}


def _line(data: bytes) -> str:
    return data[:200].split(b"\n")[0].strip().decode("utf-8", "replace")


def reachable(local: str) -> str:
    """Return the address at which what listens at a local address can be reached from inside."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(local, local)  # noqa: S104
