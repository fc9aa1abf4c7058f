"""Requests and answers of a server that are no streams.  Pure: a transport sends and receives them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from holdfast.errors import ProtocolError
from holdfast.runtime.client.client_errors import error_of


@dataclass(frozen=True, slots=True)
class HttpCall:
    """One request. Parameters and fields that are None are left out."""

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None

    @property
    def query(self) -> dict[str, Any]:
        """Its parameters as they are sent."""
        return {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in self.params.items()
            if value is not None
        }

    @property
    def content(self) -> bytes | None:
        """Its body as it is sent."""
        return None if self.body is None else json.dumps(self.body).encode()


def place(*parts: str) -> str:
    """Return the path of a resource under `/v1`; the parts may have any characters."""
    return "/".join(("/v1", *(quote(part, safe="") for part in parts)))


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields of a body that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def session_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a new session as a body has them: plain values, and mounts as texts."""
    return {name: _plain(value) for name, value in options.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return (
        [str(each) for each in value] if isinstance(value, Iterable) and not isinstance(value, str) else value
    )


def answer(status: int, content: bytes) -> Any:
    """Return what a server answered; None if it is nothing.

    Raises:
        HoldfastError: the error that it reports.
    """
    try:
        told = json.loads(content) if content else None
    except (ValueError, RecursionError):
        raise ProtocolError(f"cannot understand the server: it answered {status}, and not in JSON") from None
    return settled(status, told)


def settled(status: int, told: Any) -> Any:
    """Return an answer that was read; raises as `answer` does."""
    if status >= 400:
        raise error_of(told)
    return told
