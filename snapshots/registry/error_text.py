"""Errors of registries and connections, in a few words that are safe to show. Pure."""

from __future__ import annotations

import json
import ssl
from contextlib import suppress

import httpx

_PLAIN = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"})


def said(answer: httpx.Response) -> str:
    """Return a status with the registry's own explanation."""
    text = ""
    with suppress(ValueError, KeyError, IndexError, TypeError, AttributeError):
        first = json.loads(answer.content)["errors"][0]
        text = str(first.get("message") or first["code"])
    text = shown(text)
    return f"{answer.status_code}, {text}" if text else str(answer.status_code)


def shown(text: str, limit: int = 200) -> str:
    """Remove terminal control characters."""
    return "".join(c for c in text[: limit * 2] if c.isprintable())[:limit]


def why(error: httpx.TransportError) -> str:
    """Return why there was no answer."""
    if isinstance(error, httpx.TimeoutException):
        return "it does not answer in time"
    if isinstance(error, httpx.ProxyError):
        return f"the proxy on the way fails ({shown(str(error))})"
    if isinstance(error, httpx.ConnectError):
        return f"there is no connection ({shown(str(error))})" if str(error) else "there is no connection"
    return "the connection was lost"


def speaks_plain(error: BaseException) -> bool:
    """Return whether the peer of a TLS handshake does not speak TLS."""
    return any(isinstance(each, ssl.SSLError) and each.reason in _PLAIN for each in _causes(error))


def distrusts(error: BaseException) -> str:
    """Return why a certificate is not trusted; empty if that was not the reason."""
    for each in _causes(error):
        if isinstance(each, ssl.SSLCertVerificationError):
            return shown(each.verify_message)
    return ""


def _causes(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and len(found) < 20:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
