"""Errors of a server, turned into the same errors of the library. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast import errors
from holdfast.base.text import plain
from holdfast.errors import (
    HoldfastError,
    LiveUnsupported,
    OnlyInProcess,
    SecretsFound,
    ServerDenied,
    SessionBusy,
)

_LONGEST = 2000


def _all(kind: type[HoldfastError]) -> Iterator[type[HoldfastError]]:
    yield kind
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            yield from _all(each)


_KINDS = {kind.code: kind for kind in _all(HoldfastError)}
_OTHERS: Mapping[str, type[HoldfastError]] = {
    "too_many_calls": SessionBusy,
    "too_many_calls_of_session": SessionBusy,
    "too_many_requests": SessionBusy,
    "too_many_watches": SessionBusy,
    "server_stopping": errors.ServerUnavailable,
    "unauthorized": ServerDenied,
    "forbidden_origin": ServerDenied,
    "misdirected": ServerDenied,
    "invalid_request": errors.InvalidArgument,
    "bad_request": errors.InvalidArgument,
    "body_too_large": errors.InvalidArgument,
    "range_not_satisfiable": errors.InvalidArgument,
}
"""Codes that only a server has."""


ONLY_IN_PROCESS = frozenset(
    (
        *(
            "doctor",
            "engine",
            "export",
            "fits",
            "home",
            "images",
            "import_",
            "keeping",
            "link",
            "move",
            "next",
        ),
        *("pack", "pool", "pull", "push", "row", "serve_captures", "store", "thaw", "tried", "verify"),
    )
)
"""Attributes that only in-process handles have: they concern the server's machine."""


def missing(name: str) -> OnlyInProcess | AttributeError:
    """Return the error for an attribute that a handle over a URL lacks, and perhaps one in process too."""
    if name in ONLY_IN_PROCESS:
        return not_over_a_url(name)
    return AttributeError(f"there is no {name!r}, neither over a URL nor in process")


def not_over_a_url(name: str) -> OnlyInProcess:
    """Return the error for an attribute that handles over a URL do not have."""
    return OnlyInProcess(
        f"cannot use `{name}` over a URL: it exists only in process",
        hint="run it on the server's machine, without HOLDFAST_URL",
    )


def error_of(body: Any) -> HoldfastError:
    """Return the error that an answer reports."""
    told = body.get("error") if isinstance(body, Mapping) else None
    if not isinstance(told, Mapping):
        return HoldfastError("cannot understand the server: its answer has an unexpected form")
    code = str(told.get("code", ""))
    kind = _KINDS.get(code) or _OTHERS.get(code) or HoldfastError
    message, hint = (plain(str(told.get(name) or ""), _LONGEST) for name in ("message", "hint"))
    message = message or "cannot do that: the server does not say why"
    if issubclass(kind, LiveUnsupported | SecretsFound):
        found = told.get("findings")
        findings = (
            tuple(each for each in found if isinstance(each, Mapping)) if isinstance(found, list) else ()
        )
        return kind(message, hint=hint, findings=findings)
    return kind(message, hint=hint)
