"""Interrupts as clients of this wire mean them: with patience, and in the end by force.

After a number of interrupts that were not obeyed, the job is stopped and killed, as their own server does.
"""

from __future__ import annotations

import re

from holdfast.runtime.api.session import Session
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.results import ExecResult
from holdfast.runtime.swerex.expected_output import ExpectedOutput, shown
from holdfast.runtime.swerex.runtime_bodies import Observation, ShellInterrupt
from holdfast.runtime.swerex.runtime_failures import TimeIsOver
from holdfast.runtime.swerex.unread_output import ReadingPlace, UnreadOutput

PAUSE = 0.5
"""Seconds that an interrupted program has beside those its caller allows."""
STOP_SECONDS = 5.0
"""How long a program has to stop."""
JOB = "builtin jobs -p %%"
"""Prints the process group of the job that was stopped last."""
KILL = 'kill -9 -- "-$1" && while kill -0 -- "-$1" 2>/dev/null; do sleep 0.02; done'
"""Waits until the shell knows of the end, so that the shell reports it with the next command."""
KILL_SECONDS = 10.0


class ForcedInterrupt:
    """The interrupt of what runs in one shell."""

    def __init__(
        self, found: Session, asked: ShellInterrupt, patience: Patience, unread: UnreadOutput
    ) -> None:
        self._found, self._asked, self._patience, self._unread = found, asked, patience, unread
        self._output = ExpectedOutput(asked.expect)

    def run(self) -> Observation:
        """Interrupt it until it ends or shows what is expected; stop and kill it if it does neither.

        Raises:
            TimeIsOver: it could not even be stopped.
            ShellNotFound, SessionError, GuestError: it cannot be done.
        """
        patience = self._asked.timeout + PAUSE
        for _ in range(max(1, self._asked.n_retry)):
            result = self._found.interrupt(shell=self._asked.session, patience=patience)
            if result is None or self._has_ended(result):
                return self._observed(result)
            if self._patience.ended:
                raise self._obstinate("not be interrupted before the client, or the server, has ended")
        assert result is not None
        self._found.terminal_of(self._asked.session).send_keys("C-z")
        stopped = self._found.join(
            result.command_id,
            start=result.end_offset,
            shell=self._asked.session,
            patience=STOP_SECONDS,
            wait=True,
        )
        if self._has_ended(stopped):
            if not self._output.found:
                self._kill()
            return self._observed(stopped)
        raise self._obstinate("neither be interrupted nor stopped")

    def _kill(self) -> None:
        """Kill the job that was stopped: not by the shell, which would report the end now or later."""
        told = self._found.exec(JOB, shell=self._asked.session, busy_wait=KILL_SECONDS, timeout=KILL_SECONDS)
        groups = re.findall(r"^(\d{1,10})\r?$", told.text, re.MULTILINE | re.ASCII)
        if not groups:  # it has ended meanwhile
            return
        words = ["/bin/bash", "-c", KILL, "bash", groups[-1]]
        if not self._found.programs.run(words, timeout=KILL_SECONDS).ok:
            raise self._obstinate("be stopped, but not killed")

    def _obstinate(self, how: str) -> TimeIsOver:
        return TimeIsOver(
            f"cannot interrupt what runs in session {self._asked.session}: it can {how}",
            hint="close the session, or end the program with execute",
        )

    def _has_ended(self, result: ExecResult) -> bool:
        return self._output.feed(result.text) or not result.running

    def _observed(self, result: ExecResult | None) -> Observation:
        output = shown(self._output.before).strip()
        if not self._output.found:
            return Observation(output)
        if result is not None and result.running:
            place = ReadingPlace(result.command_id, result.end_offset, self._output.after)
            self._unread.keep(self._found.id, self._asked.session, place)
        return Observation(output, expect_string=self._output.found)
