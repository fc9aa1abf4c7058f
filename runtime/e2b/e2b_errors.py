"""Errors as this wire tells them: a status and `{code, message}`, a name as code for its RPCs.  Pure."""

from __future__ import annotations

from typing import Any

from holdfast.base.text import plain
from holdfast.errors import (
    GuestDisconnected,
    HoldfastError,
    SessionBusy,
    SessionDead,
    SessionError,
    SessionNotFound,
)
from holdfast.runtime.serve import answer_forms

RPC_PATHS = ("/process.Process/", "/filesystem.Filesystem/")
RPC_CODES = {
    400: "invalid_argument",
    401: "unauthenticated",
    403: "permission_denied",
    404: "not_found",
    405: "unimplemented",
    409: "failed_precondition",
    413: "resource_exhausted",
    422: "invalid_argument",
    429: "resource_exhausted",
    501: "unimplemented",
    502: "unavailable",
    503: "unavailable",
    504: "deadline_exceeded",
    507: "resource_exhausted",
}


class SandboxUnavailable(SessionError):
    """A sandbox that does not run; 502 is what clients take for that."""

    code = "sandbox_unavailable"


class SandboxNotFound(HoldfastError):
    """There is no such sandbox (any more); an answer of the control plane."""

    code = "sandbox_not_found"


class InputNotTaken(HoldfastError):
    """A process did not take its input in time."""

    code = "input_not_taken"


class SandboxBusy(SessionError):
    """Another operation holds the sandbox; the same request can be sent again soon."""

    code = "sandbox_busy"


class AlreadyPaused(SessionError):
    """The sandbox is paused already, which is what clients take a 409 for."""

    code = "already_paused"


class CannotPause(SessionError):
    """The sandbox cannot be captured in its present state."""

    code = "cannot_pause"


class WatcherNotFound(HoldfastError):
    """No such watcher: it was removed, or no one has asked for its events for long."""

    code = "watcher_not_found"


class NotOffered(HoldfastError):
    """Something of the wire that sessions do not have."""

    code = "not_offered"


def status_of(error: HoldfastError) -> int:
    """Return the status that tells a client of an error."""
    if isinstance(error, NotOffered):
        return 501
    if isinstance(error, InputNotTaken):
        return 504
    if isinstance(error, SandboxNotFound | WatcherNotFound):
        return 404
    if isinstance(error, SandboxBusy):
        return 503
    if isinstance(error, CannotPause):
        return 422
    gone = SandboxUnavailable | SessionNotFound | SessionDead | GuestDisconnected
    if isinstance(error, gone) and not isinstance(error, SessionBusy):
        return 502
    return answer_forms.status_of(error)


def sentence(error: HoldfastError) -> str:
    """Return its message and what to do, in one line."""
    return f"{error}; {error.hint}" if error.hint else str(error)


def rpc_code(status: int) -> str:
    """Return the name that an RPC gives to a status."""
    return RPC_CODES.get(status, "internal")


def body(path: str, status: int, message: str) -> dict[str, Any]:
    """Return the body of an answer that reports an error.

    A sandbox that does not run is reported in the words of E2B's proxy, which clients look for.
    """
    rpc = path.startswith(RPC_PATHS) and status != 502
    return {"code": rpc_code(status) if rpc else status, "message": plain(message, 2000)}
