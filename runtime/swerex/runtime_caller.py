"""The caller of one request of this wire: in whose name it acts, and under which key a command runs once."""

from __future__ import annotations

import re

from starlette.requests import Request

from holdfast.runtime.serve.callers import ApiCaller, Callers, chosen_actor
from holdfast.runtime.swerex.unread_output import UnreadOutput

ACTOR = "agent:swerex"
REQUEST_ID = "X-Request-ID"
"""The header that is the same when a client sends a request once more."""
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RuntimeCaller(ApiCaller):
    """The caller of one request."""

    def __init__(self, request: Request, callers: Callers, unread: UnreadOutput) -> None:
        super().__init__(request, callers, chosen_actor(request, ACTOR))
        self.unread = unread

    @property
    def key(self) -> str | None:
        """The key under which a command of this request runs once; None if the client sends no id."""
        given = self.request.headers.get(REQUEST_ID, "")
        return f"swerex-{given}" if _ID.fullmatch(given) else None


def runtime_caller(request: Request) -> RuntimeCaller:
    """Return the caller of a request, for the functions of paths."""
    state = request.app.state
    return RuntimeCaller(request, state.callers, state.unread)
