"""Programs in the session that asked to be captured, and who on the host serves them. Decides; does nothing.

A request waits until the host has taken a snapshot of the session with its program in it, and is answered
twice then: in the session by the host, with what came of it, and in every copy by the copy's own supervisor.
One request at a time is out at the host. While nobody serves, requests are refused at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.runtime.guest.wire.connection import Refusal

MOST = 256
"""Requests that wait at the same time."""

Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """What a program asked for. `asker` is where its answer goes, `told` what it says of itself."""

    asker: str
    generation: int
    told: Mapping[str, Any] = field(default_factory=dict)


class Captures:
    """All requests of a session. `give` hands a program its answer; `heard` is called when one may go out."""

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
        """Whether requests are taken: somebody serves, or is about to be back."""
        return self._served or self._expected

    def ask(self, request: Request, generation: int, snapshot: str) -> None:
        """Take a request. `generation` and `snapshot`: of the session, and what it was restored from."""
        if request.generation < generation:
            # Asked before the session became this copy, and heard only now.
            self._give(request.asker, restored(snapshot, own=False))
        elif not self.open:
            self._give(request.asker, UNAVAILABLE)
        elif len(self._waiting) >= MOST:
            self._give(request.asker, failed("limit", f"{MOST} programs wait to be captured already"))
        else:
            self._waiting.append(request)
            self.heard()

    def serve(self, holding: int) -> None:
        """Somebody serves from now on, and still has the request of that number; 0 is none.

        Raises:
            Refusal: somebody else does.
        """
        if self._served:
            raise Refusal("busy", "cannot serve captures: another process serves this session already")
        self._served, self._expected = True, False
        if self._out is not None and holding != self._number:
            self._waiting.appendleft(self._out)  # whoever had it is gone
            self._out = None

    def next(self) -> tuple[int, Request] | None:
        """Let the next request out, if none is."""
        if self._out is not None or not self._waiting:
            return None
        self._out = self._waiting.popleft()
        self._number += 1
        return self._number, self._out

    def answered(self, number: int, answer: Answer) -> None:
        """The host has done what it could about a request. One it has answered before is no news."""
        if self._out is not None and number == self._number:
            asker, self._out = self._out.asker, None
            self._give(asker, answer)
            self.heard()

    def left(self, *, expected: bool) -> None:
        """Nobody serves any more; `expected`: only because of a capture, and soon again."""
        self._served, self._expected = False, expected
        if not expected:
            self._drop(UNAVAILABLE)

    def restored(self, snapshot: str) -> None:
        """This is a copy: whoever waited has come out of the capture in it, and nobody serves here."""
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
    """The answer in a copy; `own` if the snapshot was taken for who asked."""
    return {"kind": "restored", "snapshot": snapshot, "own": own}


def failed(code: str, message: str, hint: str = "") -> Answer:
    """The answer if there will be no snapshot."""
    return {"kind": "failed", "code": code, "message": message, "hint": hint}


UNAVAILABLE = failed(
    "unavailable",
    "cannot be captured: no process on the host serves captures of this session",
    "on the host: `holdfast serve-captures SESSION`, or `holdfast ci run`",
)
