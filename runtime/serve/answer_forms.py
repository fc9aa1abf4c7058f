"""The forms of answers that many paths share: JSON with texts of any bytes, errors, events. Pure.

An error has a status, and the code, message and hint of the library's own one: a client that maps the code
back has the same error as a caller in process.
"""

from __future__ import annotations

import math
from typing import Any

from pydantic import BaseModel
from starlette.responses import JSONResponse

from holdfast import errors
from holdfast.base import printable_json
from holdfast.base.text import plain
from holdfast.errors import HoldfastError, LiveUnsupported, SecretsFound
from holdfast.runtime.files.watch_budget import TooManyWatches
from holdfast.runtime.serve.call_threads import ServerStopping, TooManyCalls
from holdfast.runtime.serve.models.base_models import ErrorAnswer


class PrintableAnswer(JSONResponse):
    """A body in JSON. Invalid UTF-8 becomes lone surrogates, as in `os.fsdecode`, and is escaped."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return printable_json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


STATUSES: tuple[tuple[type[HoldfastError], int], ...] = (
    # The first that fits: subclasses stand before their bases.
    (TooManyCalls, 503),
    (ServerStopping, 503),
    (TooManyWatches, 429),
    (errors.InvalidArgument, 400),
    (errors.EngineUnavailable, 503),
    (errors.ServerUnavailable, 502),
    (errors.NotPermitted, 403),
    (errors.ServerDenied, 502),
    (errors.OnlyInProcess, 501),
    (errors.RunsEnded, 503),
    (errors.RegistryUnavailable, 502),
    (errors.RegistryDenied, 502),
    (errors.ReferenceNotFound, 404),
    (errors.RegistryError, 502),
    (errors.SessionNotFound, 404),
    (errors.SnapshotNotFound, 404),
    (errors.ShellNotFound, 404),
    (errors.KernelNotFound, 404),
    (errors.JobNotFound, 404),
    (errors.ArtifactNotFound, 404),
    (errors.CommandNotFound, 404),
    (errors.ProgramNotFound, 404),
    (errors.SessionFileNotFound, 404),
    (errors.SessionFileDenied, 403),
    (errors.SessionFileError, 409),
    (errors.SessionMoving, 503),
    (errors.SessionElsewhere, 421),
    (errors.SessionError, 409),
    (errors.GuestDisconnected, 502),
    (errors.ProtocolError, 502),
    (errors.PortClosed, 502),
    (errors.GuestError, 409),
    (errors.LiveUnsupported, 409),
    (errors.SnapshotInUse, 409),
    (errors.SnapshotDamaged, 409),
    (errors.SnapshotNewer, 409),
    (errors.SecretsFound, 409),
    (errors.BundleRefused, 409),
    (errors.QuotaExceeded, 507),
    (errors.ClusterUnavailable, 503),
    (errors.LeaseLost, 409),
    (errors.NodeTaken, 409),
    (errors.QuotaReached, 429),
    (errors.StoreError, 500),
)
NODE_HEADER = "Holdfast-Node"
"""The header with the address of the node that has a session, if it is a different one."""
HTTP_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    408: "request_timeout",
    413: "body_too_large",
    415: "unsupported_media_type",
    416: "range_not_satisfiable",
    422: "invalid_request",
    429: "too_many_requests",
    500: "internal_error",
    503: "unavailable",
}
"""Codes of errors that the library does not know."""


def status_of(error: HoldfastError) -> int:
    """Return the status of an answer that reports this error."""
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 500)


def headers_of(error: HoldfastError) -> dict[str, str] | None:
    """Return the headers of an answer that reports this error: when to ask again, if that can help."""
    if isinstance(error, errors.QuotaReached):
        seconds = error.retry_after
        return None if seconds is None else {"Retry-After": str(max(1, math.ceil(seconds)))}
    return {"Retry-After": "1"} if status_of(error) == 503 else None


def body_of(error: HoldfastError) -> dict[str, Any]:
    """Return the body of that answer."""
    found = list(error.findings) if isinstance(error, LiveUnsupported | SecretsFound) else None
    return body(error.code, str(error), error.hint, found)


def body(code: str, message: str, hint: str = "", findings: list[Any] | None = None) -> dict[str, Any]:
    """Return the body of an answer that reports an error."""
    told: dict[str, Any] = {"code": code, "message": plain(message, 2000), "hint": plain(hint, 2000)}
    if findings is not None:
        told["findings"] = findings
    return {"error": told}


_REASONS = {
    400: "An argument is not valid.",
    401: "The token is missing or wrong.",
    403: "The access key lacks a scope, the session's user a right, or pages of that origin are not allowed.",
    404: "The session, snapshot, shell, command, job, program or file does not exist.",
    405: "The path does not have this method.",
    408: "The rest of the body does not arrive.",
    409: "The state of the session or snapshot does not allow the call.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The request is for a different host, or for the node that `Holdfast-Node` names.",
    422: "The request does not have the documented form.",
    429: "There are too many requests, or the quota of the home is reached.",
    500: "The server failed; the line in its log has the request's id.",
    502: "The session does not answer, or answers incorrectly.",
    503: "The server has reached a limit of its own, or no engine answers.",
    507: "The snapshots would exceed their quota.",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": text} for status, text in _REASONS.items()
}


ITEM = "x-itemSchema"
"""The key of the schema of each item of a stream: `itemSchema` of OpenAPI 3.2, which 3.1 does not allow."""
_EVENT: dict[str, Any] = {
    "type": "object",
    "properties": {"event": {"type": "string", "description": "Its kind."}},
    "required": ["event"],
}
EVENTS: dict[str, Any] = {
    "application/x-ndjson": {ITEM: _EVENT},
    "text/event-stream": {
        ITEM: {
            "type": "object",
            "properties": {
                "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": _EVENT},
                "event": {"type": "string", "description": "Its kind."},
                "id": {"type": "string", "description": "Where what follows begins: `Last-Event-ID`."},
            },
            "required": ["data", "event"],
        }
    },
}
"""The forms in which events are sent, by media type."""


def streamed(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """Return the responses of a path that answers with events if the client accepts them."""
    return {
        200: {
            "model": model,
            "description": "The outcome; or events as they come, the outcome as the last one.",
            "content": EVENTS,
        }
    }
