"""Errors as answers of this wire: a message and a reason, with statuses that front ends act on.  Pure."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse

from holdfast.base.text import plain
from holdfast.errors import GuestDisconnected, HoldfastError, SessionDead, SessionError, SessionNotFound
from holdfast.runtime.serve import answer_forms

RETRY_SECONDS = 5


def status_of(error: HoldfastError) -> int:
    """Return the status of an answer that reports this error.

    A session that does not run now, but may soon, is unavailable; one that is dead has no kernels any more.
    """
    if isinstance(error, SessionNotFound | SessionDead):
        return 404
    if isinstance(error, SessionError | GuestDisconnected):
        return 503
    return answer_forms.status_of(error)


def answer(error: HoldfastError) -> JSONResponse:
    """Return the answer that reports this error."""
    status = status_of(error)
    message = f"{error}; {error.hint}" if error.hint else str(error)
    headers = {"Retry-After": str(RETRY_SECONDS)} if status == 503 else None
    return JSONResponse(body(message, error.code), status, headers=headers)


def body(message: str, reason: str) -> dict[str, Any]:
    """Return the body of an answer that reports an error."""
    return {"message": plain(message, 2000), "reason": reason}
