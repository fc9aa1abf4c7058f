"""A job's present activity, and whether it waits for input: the sampler, as seen from a job.

A job is looked at less often than a shell: no caller waits for it to return, and there may be many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from holdfast.runtime.guest.pulse.input_kind import TAIL
from holdfast.runtime.guest.pulse.sampler import Sampler
from holdfast.runtime.guest.pulse.state import State
from holdfast.runtime.guest.records.streamlog import StreamLog
from holdfast.runtime.guest.shells.terminal import ProcessTerminal

TICK = 0.1


class WatchedJob(Protocol):
    """The members of a job that are used here."""

    terminal: ProcessTerminal | None
    pid: int | None
    log: StreamLog


class JobWatching:
    """One job's sampler."""

    def __init__(self, job: WatchedJob, drain: Callable[[], None], notify: Callable[[State], None]) -> None:
        """Watch a job; `notify` is called when it begins to wait for something else than before."""
        self._job = job
        self._drain = drain
        self._notify = notify
        self._notified: tuple[object, ...] = ()
        self._sampler = Sampler(self, TICK)
        self._sampler.watch(True)

    @property
    def master(self) -> int | None:
        """The descriptor of the terminal's master side."""
        return self._job.terminal.fd if self._job.terminal else None

    @property
    def leader(self) -> int | None:
        """The process of the job."""
        return self._job.pid

    def foreground_group(self) -> int | None:
        """Return the process group that has the terminal."""
        return self._job.terminal.foreground() if self._job.terminal else None

    def drain(self) -> None:
        """Record what the terminal holds now."""
        self._drain()

    def end(self) -> int:
        """Return the offset after the newest output."""
        return self._job.log.end

    def tail(self) -> bytes:
        """Return the newest output."""
        log = self._job.log
        return log.read(max(log.start, log.end - TAIL), TAIL)

    def typed(self) -> None:
        """Note that something is about to be typed, or sent as a signal."""
        self._notified = ()
        self._sampler.typed()

    def observed(self, state: State) -> None:
        """Take a finding of the sampler: it waits now, or no longer does."""
        what = (state.pid, state.detail)
        if state.waits and what != self._notified:
            self._notified = what
            self._notify(state)
        self._job.log.wake()

    def state(self) -> State:
        """Return the present activity, from a new look."""
        return self._sampler.look()

    @property
    def episode(self) -> int:
        """The number of times it began to wait."""
        return self._sampler.episode

    def waits(self, reported: int) -> State | None:
        """Return what it waits for, unless that episode was already reported."""
        state = self._sampler.state
        return state if state.waits and self._sampler.episode != reported else None

    def stop(self) -> None:
        """Stop looking."""
        self._sampler.watch(False)
