"""The present activity on the terminal of a shell or a job, and whether it waits: the sampler, as seen from
either.

It owns when a shell is watched, which is whenever no prompt is ready, and when waiting is written into the
journal; the detection is in `pulse/`. A job is looked at less often than a shell: no caller waits for it to
return, and there can be many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from holdfast.runtime.guest.pulse.input_kind import TAIL
from holdfast.runtime.guest.pulse.sampler import Sampler
from holdfast.runtime.guest.pulse.state import State
from holdfast.runtime.guest.records.streamlog import StreamLog
from holdfast.runtime.guest.shells.shell_fsm import Exec, Phase
from holdfast.runtime.guest.shells.shell_fsm import ShellActivity as Prompt
from holdfast.runtime.guest.shells.shell_program import ShellProgram
from holdfast.runtime.guest.shells.terminal import ProcessTerminal

JOB_TICK = 0.1


class WatchedTerminal(Protocol):
    """The members of a shell or a job that are used here."""

    log: StreamLog

    @property
    def terminal(self) -> ProcessTerminal | None:
        """The terminal, while a process runs on it."""

    @property
    def pid(self) -> int | None:
        """The process on the terminal, if one runs."""


class WatchedShell(WatchedTerminal, Protocol):
    """The members of a shell that are used here."""

    program: ShellProgram

    @property
    def current(self) -> Exec | None:
        """The command that runs or comes next."""

    def drain(self) -> None:
        """Record the terminal's present content."""


class _TerminalWatch:
    """The sampler's view of one terminal. `drain` records what the terminal holds now."""

    def __init__(self, watched: WatchedTerminal, drain: Callable[[], None]) -> None:
        self._watched = watched
        self.drain = drain

    @property
    def master(self) -> int | None:
        """The descriptor of the terminal's master side, while a process runs on it."""
        terminal = self._watched.terminal
        return terminal.fd if terminal else None

    @property
    def leader(self) -> int | None:
        """The process of the shell or the job."""
        return self._watched.pid

    def foreground_group(self) -> int | None:
        """Return the process group that has the terminal."""
        terminal = self._watched.terminal
        return terminal.foreground() if terminal else None

    def end(self) -> int:
        """Return the offset after the newest output."""
        return self._watched.log.end

    def tail(self) -> bytes:
        """Return the newest output of the running work, marks included."""
        log = self._watched.log
        return log.read(max(log.start, log.end - TAIL, self._begin()), TAIL)

    def _begin(self) -> int:
        """Return the offset at which the output of the running work begins."""
        return 0


class JobWatch(_TerminalWatch):
    """One job's sampler."""

    def __init__(
        self, job: WatchedTerminal, drain: Callable[[], None], notify: Callable[[State], None]
    ) -> None:
        """Watch a job; `notify` is called when it begins a new wait."""
        super().__init__(job, drain)
        self._notify = notify
        self._notified: tuple[object, ...] = ()
        self._sampler = Sampler(self, JOB_TICK)
        self._sampler.watch(True)

    def typed(self) -> None:
        """Note that input or a signal is about to be sent."""
        self._notified = ()
        self._sampler.typed()

    def observed(self, state: State) -> None:
        """Process a finding of the sampler: it began or stopped waiting."""
        what = (state.pid, state.detail)
        if state.waits and what != self._notified:
            self._notified = what
            self._notify(state)
        self._watched.log.wake()

    def state(self) -> State:
        """Return the present activity, from a new look."""
        return self._sampler.look()

    @property
    def episode(self) -> int:
        """The number of times it began to wait."""
        return self._sampler.episode

    def waits(self, reported: int) -> State | None:
        """Return the input it waits for, unless that episode was already reported."""
        state = self._sampler.state
        return state if state.waits and self._sampler.episode != reported else None

    def stop(self) -> None:
        """Stop looking."""
        self._sampler.watch(False)


class ShellWatch(_TerminalWatch):
    """The sampler of one shell, and the reporting of its findings."""

    def __init__(self, shell: WatchedShell) -> None:
        super().__init__(shell, shell.drain)
        self._shell = shell
        self._sampler = Sampler(self)
        self._journalled: tuple[object, ...] = ()
        self._line_sent = True
        self.notify: Callable[[State, str | None], None] = _ignore
        """Called with the state and the id of the command when something begins to wait."""

    @property
    def episode(self) -> int:
        """The number of times something began to wait."""
        return self._sampler.episode

    @property
    def waiting(self) -> bool:
        """True if something is known to wait for input."""
        return self._sampler.state.waits

    def follow(self, state: Prompt) -> None:
        """Follow the machine's state: the shell is watched unless a prompt is ready."""
        self._sampler.watch(state not in (Prompt.PROMPT, Prompt.EXITED) and self._shell.terminal is not None)

    def typed(self, data: bytes) -> None:
        """Note that input or a signal is about to be sent."""
        if not data or b"\r" in data or b"\n" in data:
            self._line_sent = True
        self._sampler.typed()

    def observed(self, state: State) -> None:
        """Process a finding of the sampler: a wait began or ended."""
        if state.waits:
            self._write_down(state)
        self._shell.log.wake()

    def state(self) -> State:
        """Return the present activity, from a new look."""
        if self._shell.terminal is None:
            return State("starting")
        state = self._sampler.look()
        if state.state == "idle":
            return State("idle", pid=self._shell.pid, command=self._shell.program.kind, since=state.since)
        return state

    def waits(self, command: Exec, reported: int) -> State | None:
        """Return the input a command waits for, unless that episode was already reported."""
        if command.phase is not Phase.RUNNING or command.incomplete or self._sampler.episode == reported:
            return None
        return self._sampler.state if self._sampler.state.waits else None

    def _begin(self) -> int:
        current = self._shell.current
        return current.start_offset if current and current.phase is Phase.RUNNING else 0

    def _write_down(self, state: State) -> None:
        """Write it into the journal. An editor waits after every key of a person, which is written once."""
        what = (state.pid, state.detail)
        if what == self._journalled and (state.detail in ("key", "pager") or not self._line_sent):
            return
        self._journalled, self._line_sent = what, False
        current = self._shell.current
        self.notify(state, current.id if current else None)


def _ignore(_state: State, _command: str | None) -> None:
    return
