"""Retries: which failures are retried, how often, and the pauses in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import httpx
import tenacity

T = TypeVar("T")

BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of failures that may pass shortly."""


class Passing(Exception):
    """A failure that may pass: a lost connection, a busy registry. `after`: the seconds it asked to wait."""

    def __init__(self, why: str, after: float = 0.0) -> None:
        super().__init__(why)
        self.after = after


@dataclass(frozen=True, slots=True)
class Backoff:
    """The number of attempts; seconds before the second one, which double up to `most`; and the
    longest pause that a registry may ask for.
    """

    attempts: int = 6
    first: float = 0.25
    most: float = 10.0
    longest_asked: float = 60.0
    sleep: Callable[[float], None] = field(default=time.sleep)

    def again(self, attempt: Callable[[], T]) -> T:
        """Return what `attempt` returns; retry while it raises Passing.

        Raises:
            Passing: the last attempt failed.
        """
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
        """Return the seconds to wait after this many failures, of which this was the last."""
        asked = error.after if isinstance(error, Passing) else 0.0
        growing = min(self.most, self.first * 2.0 ** (min(failures, 30) - 1))
        return max(growing, min(asked, self.longest_asked))


def asked_for(headers: httpx.Headers) -> float:
    """Return the header Retry-After in seconds; dates are ignored."""
    text = headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0.0
