"""What is tried again, how often, and how long is waited in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import httpx
import tenacity

T = TypeVar("T")

BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of what may be gone a moment later."""


class Passing(Exception):
    """What may be gone a moment later: a lost connection, a busy registry. `after` seconds were asked for."""

    def __init__(self, why: str, after: float = 0.0) -> None:
        super().__init__(why)
        self.after = after


@dataclass(frozen=True, slots=True)
class Patience:
    """How often something is tried; seconds before the second time, which double up to `most`; and the
    longest that a registry may ask for.
    """

    attempts: int = 6
    first: float = 0.25
    most: float = 10.0
    longest_asked: float = 60.0
    sleep: Callable[[float], None] = field(default=time.sleep)

    def again(self, attempt: Callable[[], T]) -> T:
        """What `attempt` returns, tried again while it raises Passing. Raises the last one."""
        trying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Passing),
            stop=tenacity.stop_after_attempt(self.attempts),
            wait=lambda state: self.pause(
                state.attempt_number, state.outcome.exception() if state.outcome else None
            ),
            sleep=self.sleep,
            reraise=True,
        )
        return trying(attempt)

    def pause(self, failures: int, error: BaseException | None) -> float:
        """Seconds to wait after so many failures, of which this was the last."""
        asked = error.after if isinstance(error, Passing) else 0.0
        growing = min(self.most, self.first * 2.0 ** (min(failures, 30) - 1))
        return max(growing, min(asked, self.longest_asked))


def asked_for(headers: httpx.Headers) -> float:
    """The header Retry-After in seconds; dates are not read."""
    text = headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0.0
