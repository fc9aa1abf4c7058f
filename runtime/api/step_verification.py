"""Commands that are attempts at a step of one session's task: its verification, or earlier commands.

It runs the verification, reads the test report that it wrote, and finds the journal entry and the kind of the
failure. It changes no record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.base import polling
from holdfast.base.text import plain
from holdfast.errors import GuestError, Interrupted, InvalidArgument, SessionFileError
from holdfast.runtime.api.session_insight import SessionInsight
from holdfast.runtime.api.session_shells import SessionShell
from holdfast.runtime.task import failure_rule
from holdfast.runtime.task.classify_failure import (
    MOST_REPORT,
    Evidence,
    FailureClass,
    classify,
    report_failure,
)
from holdfast.runtime.task.task_record import StepAttempt

if TYPE_CHECKING:
    from holdfast.runtime.api.session_files import SessionFiles
    from holdfast.runtime.files.session_file import SessionFile
    from holdfast.runtime.guest_rpc.event import Event
    from holdfast.runtime.guest_rpc.patience import Patience
    from holdfast.runtime.guest_rpc.results import ExecResult
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel
    from holdfast.runtime.task.failure_rule import FailureRule


class SessionReport:
    """The report at a path, in its state before the verification runs.

    Raises:
        InvalidArgument: something other than a file is there.
    """

    def __init__(self, files: SessionFiles, path: str) -> None:
        self._files, self.path = files, path
        self._before = self._look()
        if self._before is not None and self._before.kind != "file":
            raise InvalidArgument(f"cannot read a test report at {path!r}: that is a {self._before.kind}")

    def written(self) -> bytes | None:
        """Return the report, cut one byte above the limit; None if it was not written."""
        now = self._look()
        if now is None or now.kind != "file" or now == self._before:
            return None
        try:
            return self._files.read(self.path, 0, MOST_REPORT + 1)
        except SessionFileError:
            return None

    def _look(self) -> SessionFile | None:
        try:
            return self._files.stat(self.path)
        except SessionFileError:
            return None


FATAL_EVENTS = ("oom", "kernel_died")
KILLED = 128 + 9
EVENT_SECONDS = 2.0
"""The supervisor counts kills for lack of memory at most a second after them."""
_GREATEST_CODE = 2**31
LATEST_COMMANDS = 50


def attempt_of(
    insight: SessionInsight,
    entry: str,
    command: str,
    result: ExecResult,
    *,
    actor: str,
    rules: Sequence[FailureRule],
    verified: bool,
    report: SessionReport | None = None,
) -> tuple[StepAttempt, FailureClass | None]:
    """Return the attempt, and the kind of its failure; None if it passed.

    Args:
        insight: the session's.
        entry: the journal entry at which the command started.
        command: the command.
        result: its outcome.
        actor: the actor of the attempt.
        rules: a user's own, for the kind of the failure.
        verified: the command verifies the step.
        report: the test report that it had to write; a command that passes fails without it.
    """
    written = report.written() if report is not None else None
    if not result.ok:
        failure: FailureClass | None = _failure(insight, entry, command, result, rules, written or b"")
    else:
        failure = None if report is None else report_failure(written, report.path)
    code = result.exit_code  # of the session's own telling
    fields: dict[str, Any] = {} if failure is None else failure.as_dict()
    fields.pop("seen", None)
    made = StepAttempt(
        entry=entry,
        outcome="passed" if failure is None else "failed",
        at=datetime.now(UTC),
        by=actor,
        exit_code=code if code is not None and abs(code) < _GREATEST_CODE else None,
        verified=verified,
        **{key: value for key, value in fields.items() if value},
    )
    return made, failure


def entry_of(insight: SessionInsight, command_id: str) -> str:
    """Return the journal entry at which a recent command started, such as `#12`.

    Raises:
        GuestError: there is none.
    """
    for entry in reversed(insight.journal(kinds=("command_started",), limit=LATEST_COMMANDS)):
        if entry.details.get("id") == command_id:
            return f"#{entry.seq}"
    raise GuestError("cannot refer to the verification: the session's journal lacks it", hint="run it again")


def command_at(insight: SessionInsight, entry: str) -> tuple[str, str]:
    """Return the id and the text of a command that has ended, by the journal entry at which it started.

    Raises:
        InvalidArgument: no command started there, or it still runs.
    """
    number = entry.removeprefix("#")
    seq = int(number) if number.isascii() and number.isdecimal() and len(number) < 16 else 0
    later = insight.journal(seq - 1, kinds=("command_started", "command_ended")) if seq else []
    if later and later[0].seq == seq and later[0].kind == "command_started":
        started = later[0].details
        command_id = str(started.get("id", ""))
        if not any(each.kind == "command_ended" and each.details.get("id") == command_id for each in later):
            raise InvalidArgument(f"cannot record this attempt: the command at {entry} still runs")
        return command_id, str(started.get("command", ""))
    raise InvalidArgument(
        f"cannot record this attempt: no command started at entry '{plain(entry, 40)}'",
        hint="`holdfast journal S --kind command_started` has their numbers",
    )


def fatal_events(
    events: Callable[[int], Iterator[Event]], after: int, exit_code: int | None
) -> frozenset[str]:
    """Return kinds of events after a journal entry that explain an end; wait for them after a kill."""

    def seen() -> frozenset[str]:
        return frozenset(event.kind for event in events(after) if event.kind in FATAL_EVENTS)

    return polling.until(seen, EVENT_SECONDS, 0.05) if exit_code == KILLED else seen()


def _failure(
    insight: SessionInsight,
    entry: str,
    command: str,
    result: ExecResult,
    rules: Sequence[FailureRule],
    report: bytes,
) -> FailureClass:
    after = int(entry.removeprefix("#"))
    waiting = result.waiting.detail if result.waiting is not None else None
    evidence = Evidence(
        command=command,
        exit_code=result.exit_code,
        signal=result.signal,
        timed_out=result.timed_out,
        waiting=str(waiting or "line") if result.running else "",
        events=fatal_events(insight.events, after, result.exit_code),
        output=result.text,
        report=report,
    )
    found = classify(evidence, rules)
    if found is None:  # the shell itself ended, without a code
        return FailureClass("shell_ended", "", "open the session again and look why", "the shell ended")
    return found


@dataclass(frozen=True, slots=True)
class JudgedCommand:
    """An attempt, the kind of its failure if it failed, and the command's output, without escapes."""

    made: StepAttempt
    failure: FailureClass | None
    output: str


class StepVerification:
    """The verification of the steps of one session's task."""

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
        """Run the verification of a step in a subshell of the session, and judge it.

        Raises:
            SessionBusy, SessionDead: it could not be run.
            Interrupted: the patience has ended; the command continues.
        """
        rules = failure_rule.read_rules(self._context.home)
        report = SessionReport(self._files, junit) if junit is not None else None
        result = self._shell.exec(f"( {command}\n)", timeout=timeout, busy_wait=busy_wait, patience=patience)
        if result.running and result.waiting is None and patience is not None:
            raise Interrupted(f"cannot tell whether step {number} is done: its verification still runs")
        if result.running:  # it asks for input, or ignores its time limit
            self._shell.interrupt()
        entry = entry_of(self._insight, result.command_id)
        actor = self._context.actor
        made, failure = attempt_of(
            self._insight, entry, command, result, actor=actor, rules=rules, verified=True, report=report
        )
        return JudgedCommand(made, failure, result.plain)

    def look_up(self, entry: str) -> JudgedCommand:
        """Judge a command that has ended, by the journal entry at which it started.

        Raises:
            InvalidArgument: no command that has ended started there.
            CommandNotFound: its outcome is no longer kept.
        """
        rules = failure_rule.read_rules(self._context.home)
        command_id, command = command_at(self._insight, entry)
        result = self._shell.join(command_id)
        actor = self._context.actor
        made, failure = attempt_of(
            self._insight, entry, command, result, actor=actor, rules=rules, verified=False
        )
        return JudgedCommand(made, failure, result.plain)
