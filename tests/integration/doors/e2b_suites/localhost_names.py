"""Resolves names below `localhost` to this machine, as RFC 6761 (6.3) asks for and browsers do.

A plugin of pytest for E2B's suites in Python: the resolver of a system often knows `localhost` alone.
"""

from __future__ import annotations

import socket
from typing import Any

_resolve = socket.getaddrinfo


def _resolved(host: Any, *arguments: Any, **options: Any) -> Any:
    name = host.decode() if isinstance(host, bytes) else host
    below = isinstance(name, str) and name.rstrip(".").endswith(".localhost")
    return _resolve("127.0.0.1" if below else host, *arguments, **options)


socket.getaddrinfo = _resolved
