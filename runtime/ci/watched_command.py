"""A command of a job: run in a session, and watched until it ends or is given up.

`HangDetector` and `Watchdog` decide whether it makes progress, and when to give it up; they are pure, and get
samples and times. A job that hangs uses no CPU and moves no bytes. One that polls for something that never
comes wakes up now and then, which is little enough not to count. One that computes forever looks like one
that works; it is ended by the time limit.

`CommandWatch` drives them. A second thread follows the command and passes its output on; this one watches
clocks, so that a silent command is given up in time. A command that is given up keeps running: the caller
decides what happens to it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from holdfast.errors import HoldfastError
from holdfast.runtime.guest.pulse.state import State

if TYPE_CHECKING:
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.guest_rpc.results import ExecResult
    from holdfast.runtime.operations.context import Context

IDLE_CPU = 0.03
"""Of one processor: below this share nothing is computed."""
IDLE_BYTES = 4096
"""Bytes of network per second below which nothing is moved."""
NOISE_CPU, NOISE_BYTES = 0.05, 16 << 10
"""CPU time is counted in ticks of 10 ms, per process; a sample itself uses the network as well."""
LOOKS = 8
"""Samples within the time after which a standstill is a hang."""
GivenUp = Literal["timeout", "waiting", "standstill"]
"""The reason to give up a command: its time is over, it waits for input, it makes no progress."""
Due = Literal["timeout", "confirm", "look"]
INTERRUPT_SECONDS = 5.0
"""Seconds a command can take to obey Ctrl-C before its output is abandoned."""
LEAVE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters at one time, in seconds and bytes; all of them only grow."""

    at: float
    output: int
    cpu: float
    moved: int


class HangDetector:
    """The time since when there has been no progress."""

    def __init__(self, at: float, after: float) -> None:
        """Start at a time; after `after` seconds, no progress counts as a hang; 0 means never."""
        self.after = after
        self._since = at
        self._base: Counters | None = None

    @property
    def every(self) -> float:
        """Seconds between two samples."""
        return max(0.25, min(30.0, self.after / LOOKS))

    def take(self, look: Counters) -> float:
        """Process a sample; return the seconds since the last progress."""
        base = self._base
        spent = look.at - self._since
        if base is None:
            self._base = look
        elif (
            look.output != base.output
            or look.cpu - base.cpu > NOISE_CPU + IDLE_CPU * spent
            or look.moved - base.moved > NOISE_BYTES + IDLE_BYTES * spent
        ):
            self._base, self._since = look, look.at
        return look.at - self._since

    def hangs(self, stood: float) -> bool:
        """Return whether that is long enough for a hang."""
        return self.after > 0 and stood >= self.after


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """The time limits of a job, in seconds; None is unlimited.

    `standstill` is the time without any progress after which it hangs, 0 never; `answer` limits its wait
    for input that no one will give.
    """

    total: float | None = None
    standstill: float = 600.0
    answer: float = 2.0


class Watchdog:
    """The next checks while a command runs."""

    def __init__(self, at: float, began: float, patience: TimeLimits) -> None:
        """Start to watch; `began` is when the time of the whole job began."""
        self._patience = patience
        self._ends = None if patience.total is None else began + patience.total
        self._detector = HangDetector(at, patience.standstill)
        self._look_at = at + self._detector.every if patience.standstill > 0 else None
        self.asked: State | None = None
        """The wait that was last reported."""
        self._confirm_at: float | None = None

    def waits(self, state: State, at: float) -> None:
        """Note a report that it waits for input."""
        self.asked, self._confirm_at = state, at + self._patience.answer

    def continues(self) -> None:
        """Note that a check found it no longer waiting."""
        self._confirm_at = None

    def next(self) -> float | None:
        """Return the time of the next check; None if there is none."""
        times = [time for time in (self._ends, self._look_at, self._confirm_at) if time is not None]
        return min(times, default=None)

    def due(self, at: float) -> Due | None:
        """Return the checks that are due now."""
        if self._confirm_at is not None and at >= self._confirm_at:
            return "confirm"
        if self._ends is not None and at >= self._ends:
            return "timeout"
        return "look" if self._look_at is not None and at >= self._look_at else None

    def looked(self, look: Counters | None, at: float) -> bool:
        """Process a sample, or the lack of one at this time; return whether the job hangs."""
        self._look_at = at + self._detector.every
        return look is not None and self._detector.hangs(self._detector.take(look))


@dataclass(frozen=True, slots=True)
class WatchedOutcome:
    """The outcome of a command: its `result`, or why it was `given` up and the input it waits for."""

    result: ExecResult | None
    given: GivenUp | None = None
    asked: State | None = None


class CommandWatch:
    """The watch over one command."""

    def __init__(self, context: Context, session: Session, on_output: Callable[[bytes], None]) -> None:
        self._context = context
        self._session = session
        self._on_output = on_output
        self._heard: queue.Queue[State | ExecResult | BaseException] = queue.Queue()
        self._bytes = 0
        self._follower: threading.Thread | None = None

    def run(self, command: str, began: float, patience: TimeLimits) -> WatchedOutcome:
        """Run it. `began` is when the time of the whole job began.

        Raises:
            KeyboardInterrupt: a person pressed Ctrl-C, which was also sent to the command.
            SessionError, GuestError: the session cannot be used.
        """
        follower = threading.Thread(target=self._follow, args=(command,), name="holdfast-ci", daemon=True)
        self._follower = follower
        watchdog = Watchdog(time.monotonic(), began, patience)
        follower.start()
        try:
            while True:
                found = self._await(watchdog)
                if found is not None:
                    return found
        except KeyboardInterrupt:
            with suppress(HoldfastError):
                self._session.interrupt(patience=INTERRUPT_SECONDS)
                follower.join(INTERRUPT_SECONDS)
            raise

    def leave(self) -> None:
        """Wait until the thread has ended: it does when the command or its session has."""
        if self._follower is not None:
            self._follower.join(LEAVE_SECONDS)

    def _await(self, watchdog: Watchdog) -> WatchedOutcome | None:
        ends = watchdog.next()
        try:
            heard = self._heard.get(timeout=None if ends is None else max(0.0, ends - time.monotonic()))
        except queue.Empty:
            return self._due(watchdog)
        if isinstance(heard, BaseException):
            raise heard
        if isinstance(heard, State):
            watchdog.waits(heard, time.monotonic())
            return None
        return WatchedOutcome(heard)

    def _due(self, watchdog: Watchdog) -> WatchedOutcome | None:
        match watchdog.due(time.monotonic()):
            case "timeout":
                return WatchedOutcome(None, "timeout")
            case "confirm":
                return self._confirm(watchdog)
            case "look":
                look: Counters | None = None
                with suppress(HoldfastError):
                    look = self._look()
                if watchdog.looked(look, time.monotonic()) and self._heard.empty():
                    return WatchedOutcome(None, "standstill")
        return None

    def _confirm(self, watchdog: Watchdog) -> WatchedOutcome | None:
        """Check whether it is still waiting. A session that is being captured is asked again later."""
        try:
            state = self._session.shell().observed
        except HoldfastError:
            if watchdog.asked is not None:
                watchdog.waits(watchdog.asked, time.monotonic())
            return None
        if state is not None and state.waits and self._heard.empty():
            return WatchedOutcome(None, "waiting", state)
        watchdog.continues()
        return None

    def _look(self) -> Counters:
        """Return the session's counters so far, without the supervisor's own sampling."""
        found = self._session.pulse(parts=("processes", "limits"))
        used = (found.limits and found.limits.cpu.seconds) or 0.0
        own = sum(
            each.cpu_seconds for each in found.processes if each.origin and each.origin.kind == "supervisor"
        )
        return Counters(time.monotonic(), self._bytes, max(0.0, used - own), self._moved())

    def _moved(self) -> int:
        """Return the bytes that went through the session's interfaces; 0 if they cannot be read from here."""
        state = self._context.engine.inspect(str(self._session.row.container_id))
        with suppress(OSError, ValueError, IndexError):
            table = Path(f"/proc/{state.pid if state else 0}/net/dev").read_text().splitlines()[2:]
            counts = [line.partition(":")[2].split() for line in table]
            return sum(int(row[0]) + int(row[8]) for row in counts)
        return 0

    def _follow(self, command: str) -> None:
        try:
            result = self._session.exec(command, on_bytes=self._output, on_waiting=self._heard.put)
        except BaseException as error:  # noqa: BLE001  handed to the thread that watches
            self._heard.put(error)
        else:
            self._heard.put(result)

    def _output(self, data: bytes) -> None:
        self._bytes += len(data)
        self._on_output(data)
