"""Silence on a connection: when it has lasted, whether the session can still answer.

A session that another program has stopped keeps its connections open and says nothing, like one whose
command has nothing to say. It knows neither engine nor session; the judge does.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FIRST = 2.0
"""Seconds of silence before the judge is asked. Most answers come in milliseconds."""
MOST = 30.0
"""Seconds between two questions while the session answers them: the first wait, doubled each time."""
STEP = 15.0
"""The longest time between two questions that counts: a machine that was asleep heard nothing."""


class Silence:
    """The silence of one connection.

    The judge receives for how many seconds the session has not answered it; it returns whether it does now,
    or raises why it never will.
    """

    def __init__(self, judge: Callable[[float], bool] | None) -> None:
        self._judge = judge
        self.heard()

    def heard(self) -> None:
        """Note a sign of life."""
        self._unanswered, self._wait = 0.0, FIRST
        self._looked: float | None = None
        self._next = time.monotonic() + FIRST

    def left(self) -> float | None:
        """Return for how many seconds no look is due; None if there is no judge."""
        return None if self._judge is None else max(0.0, self._next - time.monotonic())

    def look(self) -> None:
        """Ask the judge if it is time to."""
        now = time.monotonic()
        if self._judge is None or now < self._next:
            return
        if self._looked is not None:
            self._unanswered += min(STEP, now - self._looked)
        if self._judge(self._unanswered):
            self._unanswered, self._wait, self._looked = 0.0, min(MOST, 2 * self._wait), None
        else:
            self._wait, self._looked = FIRST, now
        self._next = time.monotonic() + self._wait
