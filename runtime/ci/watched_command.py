"""Runs a command in a session and watches it until it ends or is given up. A thin driver around `watchdog`.

A second thread follows the command and passes its output on; this one watches clocks, so that a silent
command is given up in time. A command that is given up keeps running: the caller decides what happens to it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.runtime.ci.hang_detector import Counters
from holdfast.runtime.ci.watchdog import Given, TimeLimits, Vigil
from holdfast.runtime.guest.pulse.state import State

if TYPE_CHECKING:
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.guest_rpc.results import ExecResult
    from holdfast.runtime.operations.context import Context

INTERRUPT_SECONDS = 5.0
"""Seconds a command may take to obey Ctrl-C before its output is abandoned."""
LEAVE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class WatchedOutcome:
    """The outcome of a command: its `result`, or why it was `given` up and what it waits for."""

    result: ExecResult | None
    given: Given | None = None
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
        vigil = Vigil(time.monotonic(), began, patience)
        follower.start()
        try:
            while True:
                found = self._await(vigil)
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

    def _await(self, vigil: Vigil) -> WatchedOutcome | None:
        ends = vigil.next()
        try:
            heard = self._heard.get(timeout=None if ends is None else max(0.0, ends - time.monotonic()))
        except queue.Empty:
            return self._due(vigil)
        if isinstance(heard, BaseException):
            raise heard
        if isinstance(heard, State):
            vigil.waits(heard, time.monotonic())
            return None
        return WatchedOutcome(heard)

    def _due(self, vigil: Vigil) -> WatchedOutcome | None:
        match vigil.due(time.monotonic()):
            case "timeout":
                return WatchedOutcome(None, "timeout")
            case "confirm":
                return self._confirm(vigil)
            case "look":
                look: Counters | None = None
                with suppress(HoldfastError):
                    look = self._look()
                if vigil.looked(look, time.monotonic()) and self._heard.empty():
                    return WatchedOutcome(None, "standstill")
        return None

    def _confirm(self, vigil: Vigil) -> WatchedOutcome | None:
        """Check whether it still waits. A session that cannot be asked now, in a capture, is asked again."""
        try:
            state = self._session.shell().observed
        except HoldfastError:
            if vigil.asked is not None:
                vigil.waits(vigil.asked, time.monotonic())
            return None
        if state is not None and state.waits and self._heard.empty():
            return WatchedOutcome(None, "waiting", state)
        vigil.continues()
        return None

    def _look(self) -> Counters:
        """Return the session's counters so far, except what its supervisor uses to sample."""
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
