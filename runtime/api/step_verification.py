"""Commands that are attempts at a step of one session's task: what verifies it, or was run before.

It runs the verification and reads the journal; it changes no record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import Interrupted
from holdfast.runtime.api import step_attempt
from holdfast.runtime.api.session_insight import SessionInsight
from holdfast.runtime.api.session_report import SessionReport
from holdfast.runtime.api.session_shell import SessionShell
from holdfast.runtime.task import failure_rules_file

if TYPE_CHECKING:
    from holdfast.runtime.api.session_files import SessionFiles
    from holdfast.runtime.guest_rpc.patience import Patience
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel
    from holdfast.runtime.task.classify_failure import FailureClass
    from holdfast.runtime.task.task_record import StepAttempt


@dataclass(frozen=True, slots=True)
class JudgedCommand:
    """An attempt, the kind of its failure if it failed, and what the command printed, without escapes."""

    made: StepAttempt
    failure: FailureClass | None
    output: str


class StepVerification:
    """What verifies the steps of one session's task."""

    def __init__(self, line: SessionChannel, files: SessionFiles) -> None:
        self._shell, self._files = SessionShell(line), files
        self._insight, self._context = SessionInsight(line), line.context

    def run(
        self,
        number: str,
        command: str,
        *,
        timeout: float,
        junit: str | None,
        busy_wait: float | None,
        patience: Patience | None,
    ) -> JudgedCommand:
        """Run what verifies a step, in a subshell of the session, and judge it.

        Raises:
            SessionBusy, SessionDead: it could not be run.
            Interrupted: the patience has ended; the command continues.
        """
        rules = failure_rules_file.read(self._context.home)
        report = SessionReport(self._files, junit) if junit is not None else None
        result = self._shell.exec(f"( {command}\n)", timeout=timeout, busy_wait=busy_wait, patience=patience)
        if result.running and result.waiting is None and patience is not None:
            raise Interrupted(f"cannot say whether step {number} is done: its verification still runs")
        if result.running:  # it asks for input, or ignores its time limit
            self._shell.interrupt()
        entry = step_attempt.entry_of(self._insight, result.command_id)
        actor = self._context.actor
        made, failure = step_attempt.of(
            self._insight, entry, command, result, actor=actor, rules=rules, verified=True, report=report
        )
        return JudgedCommand(made, failure, result.plain)

    def look_up(self, entry: str) -> JudgedCommand:
        """Judge a command that has ended, by the journal entry at which it started.

        Raises:
            InvalidArgument: no command that has ended started there.
            CommandNotFound: its outcome is no longer kept.
        """
        rules = failure_rules_file.read(self._context.home)
        command_id, command = step_attempt.command_at(self._insight, entry)
        result = self._shell.join(command_id)
        actor = self._context.actor
        made, failure = step_attempt.of(
            self._insight, entry, command, result, actor=actor, rules=rules, verified=False
        )
        return JudgedCommand(made, failure, result.plain)
