"""Calls that continue across lost connections.

A snapshot closes every connection into a session for a moment. A call that can be joined again by its id is
repeated until it ends, so that its caller never notices. A session that a different program has stopped
keeps its connections open and is silent, like one whose command is silent: so silence is looked into.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from holdfast.errors import GuestDisconnected, SessionAsleep, SessionRewound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")


# Silence for this long while the container runs: the supervisor hangs. A capture ends within 10 s.
SILENCE_SECONDS = 30.0
# A capture is the usual cause and takes about this long; the engine is asked only afterwards.
ASK_SECONDS = 0.1
STEP_SECONDS = 2.0
"""The longest that counts as silence between two attempts: a machine that was asleep heard nothing."""

BEGUN_SECONDS = 30.0
"""A call that began later than this before its session fell asleep unused was overlooked; it is a use."""
FIRST_LOOK = 2.0
"""Seconds of silence before the judge is asked. Most answers come in milliseconds."""
LAST_LOOK = 30.0
"""Seconds between two questions while the session answers them: the first wait, doubled each time."""
LONGEST_LOOK = 15.0
"""The longest time between two questions that counts: a machine that was asleep heard nothing."""


class Reconnection:
    """Repeats an attempt that loses its connection. Call `heard()` at every sign of life.

    `check` raises an error that says why the session cannot be used, if it cannot. `rewound` returns when the
    session was last rewound, in Unix seconds: calls that started before are not continued, unless `again`
    starts them again. `held`: whether something of ours keeps the session from answering now. `wake`: wakes
    the session if it falls asleep before it has taken the call; without it that is the end, as it is for a
    call that is under way.
    """

    def __init__(
        self,
        check: Callable[[], None],
        rewound: Callable[[], float] = lambda: 0.0,
        held: Callable[[], bool] = lambda: False,
        wake: Callable[[], None] | None = None,
    ) -> None:
        self._check_session = check
        self._rewound, self._held, self._wake = rewound, held, wake
        self._reached = False
        self._began = time.time()
        self.again: Callable[[], None] | None = None
        self._last = self._ticked = time.monotonic()
        self._silent = 0.0
        self._asked = 0.0

    def heard(self) -> None:
        """Note that the supervisor answered."""
        self._reached = True
        self._begin_silence()

    def _begin_silence(self) -> None:
        self._last = self._ticked = time.monotonic()
        self._silent = 0.0

    def run(self, attempt: Callable[[], T]) -> T:
        """Return the result of the first attempt that keeps its connection.

        Raises:
            SessionError: the session ended, was suspended, or was rewound.
            GuestDisconnected: it runs, but its supervisor was silent for half a minute, or took a connection
                twice and did not answer for as long.
        """
        self._begin_silence()
        self._began = time.time()
        try:
            return attempt()
        except GuestDisconnected:
            self._begin_silence()  # a call may have waited for hours before it lost its connection
            self._check()
        import tenacity  # 70 ms that a call which no snapshot interrupts need not spend

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(GuestDisconnected),
            wait=tenacity.wait_exponential(multiplier=0.002, max=0.05),
            stop=lambda state: self._is_silent(state.outcome.exception() if state.outcome else None),
            before_sleep=lambda _: self._check(),
            reraise=True,
        )(attempt)

    def _is_silent(self, error: BaseException | None) -> bool:
        """Return whether it has been silent for too long."""
        now = time.monotonic()
        # An attempt that waited for an answer in vain has heard silence for all of that time.
        waited = error is not None and isinstance(error.__cause__, TimeoutError)
        self._silent += min(now - self._ticked, SILENCE_SECONDS if waited else STEP_SECONDS)
        self._ticked = now
        if self._silent < SILENCE_SECONDS:
            return False
        if self._held():
            self._silent = 0.0
        return self._silent > 0

    def _check(self) -> None:
        if self._rewound() > self._began:
            if self.again is None:
                raise SessionRewound(
                    "cannot continue: the session was rewound in the meantime, which ended its "
                    "running commands",
                    hint="`holdfast snapshots --tree` shows where it is now",
                )
            self._began = time.time()
            self.again()
        now = time.monotonic()
        if now - self._last < ASK_SECONDS or now - self._asked < ASK_SECONDS * 5:
            return
        self._asked = now
        try:
            self._check_session()
        except SessionAsleep as sleep:
            begun = self._reached and not (sleep.why == "idle" and time.time() - self._began < BEGUN_SECONDS)
            if self._wake is None or begun:
                raise
            self._wake()
            self._begin_silence()


class Silence:
    """The silence of one connection.

    The judge receives the number of seconds for which the session has not answered it; it returns whether
    it does now, or raises the reason why it never will.
    """

    def __init__(self, judge: Callable[[float], bool] | None) -> None:
        self._judge = judge
        self.heard()

    def heard(self) -> None:
        """Note a sign of life."""
        self._unanswered, self._wait = 0.0, FIRST_LOOK
        self._looked: float | None = None
        self._next = time.monotonic() + FIRST_LOOK

    def left(self) -> float | None:
        """Return the seconds until a look is due; None without a judge."""
        return None if self._judge is None else max(0.0, self._next - time.monotonic())

    def look(self) -> None:
        """Ask the judge when a look is due."""
        now = time.monotonic()
        if self._judge is None or now < self._next:
            return
        if self._looked is not None:
            self._unanswered += min(LONGEST_LOOK, now - self._looked)
        if self._judge(self._unanswered):
            self._unanswered, self._wait, self._looked = 0.0, min(LAST_LOOK, 2 * self._wait), None
        else:
            self._wait, self._looked = FIRST_LOOK, now
        self._next = time.monotonic() + self._wait
