"""Failures of registries and connections: their retries, and their text, safe to show."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

import httpx
import tenacity

T = TypeVar("T")

BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of failures that can pass shortly."""
_PLAIN = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"})


class PassingFailure(Exception):
    """A possibly temporary failure: a lost connection, a busy registry. `after`: the seconds it asked to
    wait."""

    def __init__(self, why: str, after: float = 0.0) -> None:
        super().__init__(why)
        self.after = after


@dataclass(frozen=True, slots=True)
class Backoff:
    """The number of attempts; seconds before the second one, which double up to `most`; and the longest
    pause that a registry can ask for.
    """

    attempts: int = 6
    first: float = 0.25
    most: float = 10.0
    longest_asked: float = 60.0
    sleep: Callable[[float], None] = field(default=time.sleep)

    def again(self, attempt: Callable[[], T]) -> T:
        """Return the result of `attempt`; retry while it raises Passing.

        Raises:
            Passing: the last attempt failed.
        """
        trying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(PassingFailure),
            stop=tenacity.stop_after_attempt(self.attempts),
            wait=lambda state: self.pause(
                state.attempt_number, state.outcome.exception() if state.outcome else None
            ),
            sleep=self.sleep,
            reraise=True,
        )
        return trying(attempt)

    def pause(self, failures: int, error: BaseException | None) -> float:
        """Return the seconds to wait after this many failures, of which this was the last."""
        asked = error.after if isinstance(error, PassingFailure) else 0.0
        growing = min(self.most, self.first * 2.0 ** (min(failures, 30) - 1))
        return max(growing, min(asked, self.longest_asked))


def asked_for(headers: httpx.Headers) -> float:
    """Return the header Retry-After in seconds; dates are ignored."""
    text = headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0.0


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
    """Return the reason for the missing answer."""
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
