"""Which port of which sandbox a request is for: by the name it is sent to, or by two headers.  Pure.

The name is `PORT-SANDBOX.DOMAIN`. A page of a sandbox has such a name as its origin, so whatever is sent to
one never reaches another part of the server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

SANDBOX_ID, SANDBOX_PORT = b"e2b-sandbox-id", b"e2b-sandbox-port"
OWN = frozenset({49983, 49999})
"""The ports at which clients expect processes and files, and code: this server itself answers there."""
_HOST = re.compile(rb"(\d{1,5})-([a-z0-9]{1,64})\.(.+)", re.DOTALL)
_ID = re.compile(rb"[a-z0-9]{1,64}")
_PORT = re.compile(rb"\d{1,5}")


@dataclass(frozen=True, slots=True)
class PortName:
    """A port of a sandbox. `domain` is what the name ends with; None if headers said it."""

    sandbox: str
    port: int
    domain: bytes | None = None

    @property
    def own(self) -> bool:
        """Whether this server itself answers there."""
        return self.port in OWN

    @property
    def possible(self) -> bool:
        """Whether there is a port of that number."""
        return 0 < self.port <= 65535


def named(headers: Mapping[bytes, bytes]) -> PortName | None:
    """Return the port that a request is for, if it is for one; names of headers are in lower case."""
    if found := _HOST.fullmatch(headers.get(b"host", b"").lower()):
        return PortName(found[2].decode(), int(found[1]), found[3])
    sandbox, port = headers.get(SANDBOX_ID, b""), headers.get(SANDBOX_PORT, b"")
    if _ID.fullmatch(sandbox) and _PORT.fullmatch(port) and int(port) not in OWN:
        return PortName(sandbox.decode(), int(port))
    return None
