"""The process of a shell: started in a terminal, read from, and followed by the next one when it ends.

It owns when the next one is started, later while shells end as fast as they are started, and how a shell is
closed permanently. It does not know commands, nor the use of the output.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import Protocol

from holdfast.runtime.guest.process_surroundings import ProcessSurroundings
from holdfast.runtime.guest.pulse.deaths import ProcessEnd
from holdfast.runtime.guest.pulse.process_lineage import Origin
from holdfast.runtime.guest.shells.driven_shell import DrivenShell
from holdfast.runtime.guest.shells.terminal import ProcessTerminal, TerminalSize

CLOSE_SECONDS = 2.0
"""The longest time a closed shell can take to end before it is killed."""
MOST_READS = 64
"""Reads after which a terminal that is written to all the time is drained enough."""
HASTY = 1.0
"""A shell that ends sooner after its start ended as it was started."""
MAX_DELAY = 5.0

logger = logging.getLogger(__name__)


class Respawn:
    """Delays starts while shells end as fast as they are started."""

    def __init__(self) -> None:
        self._started = 0.0
        self._hasty_ends = 0
        self._why = ""

    def starts(self, now: float) -> None:
        """Note that a shell is started."""
        self._started = now

    def failed(self, why: str) -> None:
        """Note that it could not be started."""
        self._hasty_ends += 1
        self._why = f"it cannot be started: {why}"

    def ended(self, now: float, how: str) -> None:
        """Note that it has ended."""
        self._hasty_ends = self._hasty_ends + 1 if now - self._started < HASTY else 0
        self._why = how

    def works(self) -> None:
        """Note that it shows a prompt."""
        self._hasty_ends = 0

    @property
    def trouble(self) -> str:
        """Why the start is delayed, and how often that happened; empty if it is not."""
        return f"{self._why}, {self._hasty_ends} times" if self.delay else ""

    @property
    def delay(self) -> float:
        """Seconds until the next start; 0 means now."""
        return 0.0 if self._hasty_ends <= 2 else min(0.1 * 2**self._hasty_ends, MAX_DELAY)


class ProcessOwner(Protocol):
    """The shell whose process this is."""

    size: TerminalSize

    def holder(self) -> str | None:
        """Return the actor of the command that runs in it, if one does."""

    def process_started(self) -> None:
        """Follow a shell that is being started."""

    def take(self, data: bytes) -> None:
        """Process output of the terminal."""

    def terminal_closed(self) -> None:
        """Follow a shell that has lost its terminal."""

    def process_ended(self, code: int) -> None:
        """End its running work; `code` is its exit code, or the negative number of a signal."""

    def process_over(self) -> None:
        """Wake the waiters: no further process follows."""


class ShellProcess:
    """The processes of one shell, one after the other."""

    def __init__(
        self, name: str, files: DrivenShell, surroundings: ProcessSurroundings, shell: ProcessOwner
    ) -> None:
        self._name = name
        self._files = files
        _, _, self._reaper, self._origins, self._notice = surroundings
        self._origin = Origin("shell", name)
        self._shell = shell
        self._loop = asyncio.get_running_loop()
        self._respawn = Respawn()
        self._over: asyncio.Future[None] | None = None
        self.terminal: ProcessTerminal | None = None
        """The terminal, while a process runs."""

    @property
    def pid(self) -> int | None:
        """The process, if one runs."""
        return self.terminal.pid if self.terminal else None

    @property
    def closing(self) -> bool:
        """True once `close` was called: no process follows this one."""
        return self._over is not None

    @property
    def over(self) -> bool:
        """True once it was closed and has ended."""
        return self._over is not None and self._over.done()

    def start(self) -> None:
        """Start a process."""
        if self._over is not None:
            self._end_over()
            return
        self._respawn.starts(self._loop.time())
        try:
            terminal = self._files.start(self._shell.size)
        except OSError as error:
            logger.exception("cannot start shell %s", self._name)
            from holdfast.runtime.guest.pulse import cgroup_limits  # few sessions need it

            self._respawn.failed(cgroup_limits.explain_shortage(error))
            self._start_later()
            return
        logger.info("shell %s: started, pid %d", self._name, terminal.pid)
        self._take_up(terminal)
        self._shell.process_started()

    def adopt(self, terminal: ProcessTerminal, status: int | None) -> None:
        """Continue with the process of a previous supervisor; `status` is how it ended, if it has."""
        logger.info("shell %s: adopted, pid %d", self._name, terminal.pid)
        self._respawn.starts(self._loop.time())
        self._take_up(terminal)
        if status is not None:
            self._loop.call_soon(self._reaper.ended_elsewhere, terminal.pid, status)

    def _take_up(self, terminal: ProcessTerminal) -> None:
        self.terminal = terminal
        self._files.state.pid = terminal.pid
        self._origins.own(terminal.pid, self._origin)
        self._loop.add_reader(terminal.fd, self._readable)
        self._reaper.watch(terminal.pid, self._ended, self._stopped)

    @property
    def trouble(self) -> str:
        """Why no process runs; empty if one is just being started."""
        return self._respawn.trouble

    def works(self) -> None:
        """Note that it shows a prompt."""
        self._respawn.works()

    def stop(self) -> None:
        """Hang up without a successor."""
        if self.terminal:
            self._reaper.forget(self.terminal.pid)
            os.kill(self.terminal.pid, signal.SIGHUP)
            self._hang_up()

    async def close(self) -> None:
        """Hang up without a successor, and wait until the process has ended."""
        if self._over is None:
            self._over = self._loop.create_future()
            if self.terminal is None:
                self._end_over()
            else:
                self.terminal.resume()
                os.kill(self.terminal.pid, signal.SIGHUP)
                self._loop.call_later(CLOSE_SECONDS, self.kill)
        await asyncio.shield(self._over)

    def kill(self) -> None:
        """Kill it, if one runs."""
        if self.terminal:
            os.kill(self.terminal.pid, signal.SIGKILL)

    def drain(self) -> None:
        """Hand over the terminal's present content."""
        for _ in range(MOST_READS):
            if self.terminal is None or not (data := self.terminal.read()):
                return
            self._shell.take(data)

    def _readable(self) -> None:
        assert self.terminal
        data = self.terminal.read()
        if data is None:
            self._loop.remove_reader(self.terminal.fd)
        elif data:
            self._shell.take(data)

    def _stopped(self) -> None:
        """Continue a shell that stopped itself (`suspend`): no parent shell could continue it."""
        if self.terminal:
            self.terminal.resume()

    def _ended(self) -> None:
        assert self.terminal
        pid = self.terminal.pid
        code = os.waitstatus_to_exitcode(self._reaper.status(pid))
        logger.info("shell %s: pid %d ended with %d", self._name, pid, code)
        end = ProcessEnd.of_returncode(code)
        self._notice(
            "shell_ended",
            end,
            shell=self._name,
            pid=pid,
            closed=self.closing or None,
            actor=self._shell.holder(),
        )
        self.drain()
        self._hang_up()
        self._respawn.ended(self._loop.time(), self._how(end))
        self._shell.process_ended(code)
        self._start_later()

    def _how(self, end: ProcessEnd) -> str:
        """Describe the end of a shell that possibly ended during its start."""
        if end.signal is not None:
            return f"the shell was ended by signal {end.signal} as it started"
        return f"`{self._files.settings}` ended the shell with exit code {end.exit_code}"

    def _start_later(self) -> None:
        """Start the next one, immediately unless they end as fast as they start."""
        if self.closing:
            self._end_over()
        elif delay := self._respawn.delay:
            self._loop.call_later(delay, self.start)
        else:
            self.start()

    def _hang_up(self) -> None:
        assert self.terminal
        self._loop.remove_reader(self.terminal.fd)
        self._origins.disown(self.terminal.pid)
        self.terminal.close()
        self.terminal = self._files.state.pid = None
        self._shell.terminal_closed()

    def _end_over(self) -> None:
        assert self._over is not None
        if not self._over.done():
            self._over.set_result(None)
        self._shell.process_over()
