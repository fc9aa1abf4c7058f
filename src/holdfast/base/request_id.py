"""The id of the server's request in whose course a call is made, for journals; none outside of a server.

A call's thread has the context of the request that started it.
"""

from __future__ import annotations

from _contextvars import ContextVar  # `contextvars` would be another module on the path of `exec`

_current: ContextVar[str | None] = ContextVar("request_id", default=None)


def request_id() -> str | None:
    """Return the id; None outside of a server."""
    return _current.get()


def begin_request(id_: str) -> None:
    """Note the id for what is done in this context from here on."""
    _current.set(id_)
