"""Requests for a capture by programs in the session, and the host process that serves them. Decides; does no
I/O.

A request waits until the host has taken a snapshot of the session with its program in it. It is then
answered twice: in the session by the host, with the outcome, and in every copy by the copy's own
supervisor. The host has one request at a time. While no process serves, requests are refused immediately.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.base.value_classes import dataclass, field
from holdfast.runtime.guest.wire.connection import RequestRefused

MOST = 256
"""Limit of waiting requests."""

Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """A program's request. `asker` is where its answer goes, and `program` describes the program."""

    asker: str
    generation: int
    program: Mapping[str, Any] = field(default_factory=dict)


class CaptureRequests:
    """All requests of a session. `give` hands a program its answer; `heard` is called when one can go out."""

    def __init__(self, give: Callable[[str, Answer], None]) -> None:
        self._give = give
        self._waiting: deque[Request] = deque()
        self._out: Request | None = None
        self._number = 0
        self._served = False
        self._expected = False
        self.heard: Callable[[], None] = lambda: None

    @property
    def open(self) -> bool:
        """True if requests are taken: a process serves, or is about to be back."""
        return self._served or self._expected

    def ask(self, request: Request, generation: int, snapshot: str) -> None:
        """Process a request. `generation` and `snapshot` belong to the session and to its origin."""
        if request.generation < generation:
            # Made before the session became this copy, and received only now.
            self._give(request.asker, restored(snapshot, own=False))
        elif not self.open:
            self._give(request.asker, UNAVAILABLE)
        elif len(self._waiting) >= MOST:
            self._give(request.asker, failed("limit", f"{MOST} programs already wait for a capture"))
        else:
            self._waiting.append(request)
            self.heard()

    def serve(self, holding: int) -> None:
        """Register a server, which can still hold the request of that number; 0 if it holds none.

        Raises:
            Refusal: another process serves.
        """
        if self._served:
            raise RequestRefused("busy", "cannot serve captures: another process already serves this session")
        self._served, self._expected = True, False
        if self._out is not None and holding != self._number:
            self._waiting.appendleft(self._out)  # the server that had it is gone
            self._out = None

    def next(self) -> tuple[int, Request] | None:
        """Return the next request to send, unless one is out already."""
        if self._out is not None or not self._waiting:
            return None
        self._out = self._waiting.popleft()
        self._number += 1
        return self._number, self._out

    def answered(self, number: int, answer: Answer) -> None:
        """Record the host's answer to a request. An answer to a settled request is ignored."""
        if self._out is not None and number == self._number:
            asker, self._out = self._out.asker, None
            self._give(asker, answer)
            self.heard()

    def left(self, *, expected: bool) -> None:
        """Record that the server has left; `expected` if only for a capture, after which it returns."""
        self._served, self._expected = False, expected
        if not expected:
            self._drop(UNAVAILABLE)

    def restored(self, snapshot: str) -> None:
        """Settle all requests in a copy: they came out of its capture, and no process serves it."""
        own, self._out = self._out, None
        if own is not None:
            self._give(own.asker, restored(snapshot, own=True))
        self._served = self._expected = False
        self._drop(restored(snapshot, own=False))

    def _drop(self, answer: Answer) -> None:
        dropped = [*([self._out] if self._out else []), *self._waiting]
        self._out = None
        self._waiting.clear()
        for request in dropped:
            self._give(request.asker, answer)


def restored(snapshot: str, *, own: bool) -> Answer:
    """Return the answer in a copy; `own` if the snapshot was taken for the asker."""
    return {"kind": "restored", "snapshot": snapshot, "own": own}


def failed(code: str, message: str, hint: str = "") -> Answer:
    """Return the answer to a request that failed."""
    return {"kind": "failed", "code": code, "message": message, "hint": hint}


UNAVAILABLE = failed(
    "unavailable",
    "cannot capture the session: no process on the host serves its captures",
    "on the host: `holdfast serve-captures SESSION`, or `holdfast ci run`",
)
