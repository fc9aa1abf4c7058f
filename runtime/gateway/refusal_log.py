"""The record of refusals, one line of JSON each in a file for each session: written here, read on the host.

The file is of bounded size, and repeated attempts of one program are one line. The reader does not trust
the writer.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOST = 256 << 10
"""Size limit of a file; then it becomes the old one, and the old one is removed."""
_AGAIN = 60.0
"""Seconds in which the same refusal is not written again."""
_KNOWN = 1000


@dataclass(frozen=True, slots=True)
class RefusedHost:
    """At `at` seconds since the epoch, a session was refused `host`:`port`."""

    at: float
    host: str
    port: int


class Refusals:
    """The writer of refusals."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: dict[tuple[str, str, int], float] = {}

    def add(self, session: str, host: str, port: int, at: float) -> None:
        """Write a refusal. A failure to write changes nothing: the request is refused anyway."""
        key = (session, host, port)
        if at - self._last.get(key, 0.0) < _AGAIN:
            return
        if len(self._last) >= _KNOWN:
            self._last.clear()
        self._last[key] = at
        path = self._folder / session
        with suppress(OSError):
            with path.open("a") as file:
                file.write(json.dumps({"at": at, "host": host[:253], "port": port}) + "\n")
                size = file.tell()
            if size > MOST:
                path.replace(path.with_name(f"{session}.old"))


def read(folder: Path, session: str) -> list[RefusedHost]:
    """Return a session's refusals, oldest first. Malformed lines are left out."""
    found: list[RefusedHost] = []
    for name in (f"{session}.old", session):
        with suppress(OSError):
            found += _parsed(_content(folder / name))
    return found


def _content(path: Path) -> bytes:
    # No link and no pipe: the gateway writes the folder.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(2 * MOST) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""


def _parsed(data: bytes) -> Iterator[RefusedHost]:
    for line in data.splitlines():
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            fields = json.loads(line)
            at, host, port = fields["at"], fields["host"], fields["port"]
            if (
                isinstance(at, float | int)
                and 0 <= at < 2**40
                and isinstance(host, str)
                and host.isprintable()
                and len(host) <= 253
                and isinstance(port, int)
                and 0 <= port < 65536
            ):
                yield RefusedHost(float(at), host, port)
