"""Errors as answers: a status, and the code, message and hint that the library's own error has.  Pure.

A client that maps the code back has the same error as a caller in process.
"""

from __future__ import annotations

from typing import Any

from holdfast import errors
from holdfast.base.text import plain
from holdfast.errors import HoldfastError, LiveUnsupported, SecretsFound
from holdfast.runtime.files.watch_budget import TooManyWatches
from holdfast.runtime.serve.call_threads import ServerStopping, TooManyCalls

STATUSES: tuple[tuple[type[HoldfastError], int], ...] = (
    # The first that fits: subclasses stand before their bases.
    (TooManyCalls, 503),
    (ServerStopping, 503),
    (TooManyWatches, 429),
    (errors.InvalidArgument, 400),
    (errors.EngineUnavailable, 503),
    (errors.ServerUnavailable, 502),
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
    (errors.StoreError, 500),
)
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
