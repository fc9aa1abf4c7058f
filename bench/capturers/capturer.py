"""The interface of every tool that captures a running process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

INSIDE = Path(__file__).parent.parent / "inside"
_ASK = (
    "rm -f /tmp/{name}.report; kill -USR1 $(cat /tmp/{name}.pid);"
    " until [ -s /tmp/{name}.report ]; do sleep 0.01; done; cat /tmp/{name}.report"
)
TICKER_ON = "kill -USR1 $(cat /tmp/ticker.pid); sleep 0.1"
TICKER_OFF = _ASK.format(name="ticker")
COUNTER = _ASK.format(name="counter")


class Unavailable(Exception):
    """A tool cannot be measured here; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Taken:
    """One capture: seconds until it was kept, its size in bytes, and its freeze time, if the tool
    reports it.
    """

    seconds: float
    bytes: int
    reported: float | None = None


class Capturer(Protocol):
    """One container (or session) at a time. A failure of a peer is an `Unavailable`."""

    name: str

    def begin(self, heap: int) -> None:
        """Start it with a heap of that many random bytes and a ticker, or with a counter if that is 0."""

    def shell(self, command: str) -> str:
        """Run a command in it and return its output."""

    def capture(self) -> Taken:
        """Capture it while it continues to run."""

    def restore(self) -> tuple[float, Callable[[str], str]]:
        """Restore the last capture as something new.

        Returns the seconds up to the end of its first command, and its own `shell`.
        """

    def drop(self) -> None:
        """Remove everything restored, and the last capture."""

    def end(self) -> None:
        """Remove everything begun, captured and restored. May be called at any time."""

    def remove(self) -> None:
        """Remove everything made to use the tool."""


def longest_gap(of: Capturer) -> tuple[float, Taken]:
    """Capture while the ticker runs; return the longest pause seen inside, and the capture."""
    of.shell(TICKER_ON)
    taken = of.capture()
    return float(of.shell(TICKER_OFF).split()[-1]), taken


def is_torn(of: Capturer) -> bool:
    """Capture while the counter runs, restore, and check whether files and memory are of different
    instants.
    """
    of.capture()
    _, shell = of.restore()
    _, mismatches = shell(COUNTER).split()[-2:]
    of.drop()
    return int(mismatches) > 0
