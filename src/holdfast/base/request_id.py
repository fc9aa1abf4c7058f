"""The id of the server request that a call belongs to, for journals; None outside of a server.

A call's thread has the context of the request that started it.
"""

from __future__ import annotations

from _contextvars import ContextVar  # `contextvars` would be another module on the path of `exec`

_current: ContextVar[str | None] = ContextVar("request_id", default=None)


def request_id() -> str | None:
    """Return the id; None outside of a server."""
    return _current.get()


def begin_request(id_: str) -> None:
    """Set the id for all further work in this context."""
    _current.set(id_)
