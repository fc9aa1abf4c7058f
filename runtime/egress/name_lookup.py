"""Addresses of names, as this machine resolves them: all at once, and for a limited time.

A resolver that does not answer takes five to fifteen seconds for each name, and cannot be interrupted. That a
name has no address is an answer; that none came in time is not, and is kept apart. It knows no rules.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable

_NO_ADDRESS = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


def together(names: Iterable[str], seconds: float) -> dict[str, list[str] | None]:
    """Return the addresses of each name, none if it has none; None for names that are not known yet."""
    found: dict[str, list[str] | None] = dict.fromkeys(names)
    asked = dict[str, list[str] | None]()

    def ask(name: str) -> None:
        asked[name] = _addresses(name)

    # Not a pool: the end of the process would wait for its threads.
    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in found]
    until = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return {name: asked.get(name) for name in found}


def ready(names: Iterable[str], seconds: float) -> Callable[[str], list[str]]:
    """Return a function that looks names up in what was found of them in that time."""
    found = together(names, seconds)
    return lambda name: found.get(name) or []


def _addresses(name: str) -> list[str] | None:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return [] if error.errno in _NO_ADDRESS else None
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in found if "%" not in str(entry[4][0])))
