"""The task of a session, as its handle offers it: its record, the verification of steps, checkpoints.

It runs the verification of a step, and takes snapshots; `task/` decides the meaning of a change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.base.delegation import delegate
from holdfast.errors import EngineError, InvalidArgument, SessionError, SnapshotError
from holdfast.runtime.api import task_checkpoints, task_resumption
from holdfast.runtime.api.artifact_handles import SessionArtifacts
from holdfast.runtime.api.session_insight import SessionInsight
from holdfast.runtime.api.step_verification import StepVerification
from holdfast.runtime.api.task_resumption import BroughtBack, TaskResumed
from holdfast.runtime.artifacts import generated_files
from holdfast.runtime.task import (
    checkpoint_policy,
    kept_task,
    step_rules,
    task_changes,
    task_form,
    task_import,
    task_items,
    task_markdown,
)
from holdfast.runtime.task import handoff as handing
from holdfast.runtime.task.task_record import TaskArtifact, TaskRecord

if TYPE_CHECKING:
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.api.snapshot import Snapshot
    from holdfast.runtime.guest_rpc.patience import Patience
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel
    from holdfast.runtime.store.rows import SnapshotKind
    from holdfast.runtime.task.classify_failure import FailureClass
    from holdfast.runtime.task.task_changes import Stamp, TaskChange
    from holdfast.runtime.task.task_items import NoteKind
    from holdfast.runtime.task.task_record import StepStatus

VERIFY_SECONDS = 3600.0
"""The longest time of a verification."""


@dataclass(frozen=True, slots=True)
class TaskVerdict:
    """The result of `done`: whether the step is done, the journal entry, and the failure if it failed.

    `checkpoint` is the label of the checkpoint that the policy then took, if it did.
    """

    record: TaskRecord
    done: bool
    entry: str | None = None
    failure: FailureClass | None = None
    output: str = ""
    checkpoint: str | None = None


class SessionTask:
    """The task of one session. Every change is written into the session's journal with its actor."""

    def __init__(self, session: Session, line: SessionChannel) -> None:
        self._session = session
        self._line, self._context = line, line.context
        self._insight = SessionInsight(line)

    def record(self) -> TaskRecord | None:
        """Return the record; None if the session does not have a task.

        Raises:
            InvalidArgument: a newer version wrote it.
        """
        return kept_task.of(self._context.session_row(self._session.id))

    def set(
        self,
        *,
        goal: str | None = None,
        resume_at: str | None = None,
        retry_limit: int | None = None,
        verify: str | None = None,
        back_end: str | None = None,
        artifacts: str | None = None,
        profiles: Mapping[str, str] | None = None,
        checkpoint: str | None = None,
    ) -> TaskRecord:
        """Set the goal, which begins a task, the resume point, or the rules for every successor.

        Args:
            goal: the state to be reached.
            resume_at: where exactly to continue.
            retry_limit: how often a step can be retried after a failure.
            verify: the command that verifies steps without one of their own.
            back_end: the engine, model or service that was chosen.
            artifacts: patterns of files that each checkpoint registers as artifacts, separated by blanks.
            profiles: commands that verify, by their names, which steps refer to as `@NAME`.
            checkpoint: when checkpoints are taken automatically: `step`, after each that is done, a time such
                as `30m`, if the last one is older when something is recorded, or both.

        Raises:
            InvalidArgument: a value is not valid; an empty text removes what was set.
        """
        generated_files.patterns(artifacts)
        policy: dict[str, Any] = {"retry_limit": retry_limit, "verify": verify, "back_end": back_end}
        policy |= {"artifacts": artifacts, "profiles": profiles, "checkpoint": checkpoint}
        return self._change(
            lambda record, stamp: task_changes.set_(record, stamp, goal=goal, resume_at=resume_at, **policy)
        )

    def plan(self, text: str) -> TaskRecord:
        """Replace the plan: a line for each phase, then `- STEP` or `- STEP :: COMMAND` for each step.

        The command verifies the step. Steps that keep phase and title keep their status and attempts.

        Raises:
            InvalidArgument: it is not a plan, or lacks a step that was worked on.
        """
        return self._change(partial(task_changes.plan, text=text))

    def step(
        self,
        number: str,
        *,
        status: StepStatus | None = None,
        title: str | None = None,
        verify: str | None = None,
        back_end: str | None = None,
    ) -> TaskRecord:
        """Change a step: `status` to open, active, blocked or skipped; title, verification, back end.

        Raises:
            InvalidArgument: the step does not exist, or it would be done: that is for `done`.
        """
        return self._change(
            partial(
                task_changes.step,
                number=number,
                status=status,
                title=title,
                verify=verify,
                back_end=back_end,
            )
        )

    def claim(self, number: str, *, take: bool = False) -> TaskRecord:
        """Claim a step: other actors cannot finish or claim it until it is done or released.

        Args:
            number: the step's.
            take: take it over from another, whose work has ended.

        Raises:
            InvalidArgument: it has ended, or another has claimed it.
        """
        return self._change(partial(task_changes.claim, number=number, take=take))

    def release(self, number: str) -> TaskRecord:
        """Give up the claim of a step."""
        return self._change(partial(task_changes.release, number=number))

    def decide(self, text: str, why: str) -> TaskRecord:
        """Lock a decision, with its reason."""
        return self._change(partial(task_items.decide, text=text, why=why))

    def alternative(self, text: str, why: str) -> TaskRecord:
        """Record an alternative and the reason against it, which a successor can weigh again."""
        return self._change(partial(task_items.alternative, text=text, why=why))

    def note(self, text: str, kind: NoteKind = "note", *, step: str | None = None) -> TaskRecord:
        """Add a remark, an open `question` or a `risk`; a question about a step blocks it until answered."""
        return self._change(partial(task_items.note, text=text, kind=kind, step=step))

    def answer(self, number: int, text: str) -> TaskRecord:
        """Answer an open question, counted from 1; the answer is a locked decision from then on."""
        return self._change(partial(task_items.answer, number=number, text=text))

    def read_again(self, path: str, why: str | None = None) -> TaskRecord:
        """Add a file that a successor should read before continuing."""
        return self._change(partial(task_items.read_again, path=path, why=why))

    artifact = delegate("_artifacts", SessionArtifacts.keep)
    collect_artifacts = delegate("_artifacts", SessionArtifacts.collect)
    orphans = delegate("_artifacts", SessionArtifacts.orphans)

    def drop(self, kind: str, number: int) -> TaskRecord:
        """Remove a settled item: a decision, question, risk, file, artifact or note, counted from 1."""
        return self._change(partial(task_items.drop, kind=kind, number=number))

    def block(
        self,
        why: str,
        needs: str,
        *,
        step: str | None = None,
        entry: str | None = None,
        tried: str | None = None,
        suspend: bool = False,
    ) -> TaskRecord:
        """Record the obstacle that blocks the work.

        Args:
            why: the cause that blocks it.
            needs: the thing that would unblock it.
            step: the number of the step that is blocked.
            entry: the journal entry that shows it.
            tried: the attempts so far.
            suspend: suspend the session live, so that waiting takes no memory.

        Raises:
            LiveUnsupported, CaptureFailed: it is blocked, but the session could not be suspended.
        """
        how = partial(task_changes.block, why=why, needs=needs, step_number=step, entry=entry, tried=tried)
        record = self._change(how)
        if suspend:
            self._session.suspend()
        return record

    def unblock(self, how: str | None = None) -> TaskRecord:
        """Record that the obstacle is removed, and how; resume a suspended session."""
        record = self._change(partial(task_changes.unblock, how=how))
        if self._session.refresh().state == "suspended":
            self._session.resume()
        return record

    def done(
        self,
        number: str,
        *,
        timeout: float = VERIFY_SECONDS,
        junit: str | None = None,
        busy_wait: float | None = None,
        patience: Patience | None = None,
    ) -> TaskVerdict:
        """Mark a step as done if its verification passes now, in a subshell of the session.

        One that fails is an attempt of the step, with the kind of its failure. A step that nothing verifies
        is done because the caller says so.

        Args:
            number: the step's, such as `2.1`.
            timeout: the most seconds for the verification.
            junit: a test report in JUnit's form that the verification must write, by its path in the
                session. The step is done only if it has tests and none failed, whatever the exit code.
            busy_wait: seconds to wait while another command runs in the shell; else SessionBusy is raised.
            patience: another thread ends the waiting with it.

        Raises:
            InvalidArgument: the step does not exist, it has failed as often as the policy allows, or a report
                is given for a step that nothing verifies.
            SessionBusy, SessionDead: the verification could not be run.
            Interrupted: the patience has ended; the verification continues, and nothing was recorded.
        """
        record = self._known()
        step_rules.check_free(record, number, self._context.actor)
        command = step_rules.verification(record, step_rules.find_step(record, number))
        if command is None:
            if junit is not None:
                raise InvalidArgument(
                    f"cannot verify step {number} by a report: none of its commands writes one",
                    hint="`holdfast task step S N --verify CMD` sets it",
                )
            record = self._change(partial(task_changes.done, number=number, evidence=None))
            return self._ended(TaskVerdict(record, done=True))
        step_rules.check_limit(record, number)
        verification = self._verification()
        judged = verification.run(
            number, command, timeout=timeout, junit=junit, busy_wait=busy_wait, patience=patience
        )
        step = step_rules.find_step(record, number)
        chosen = {"profile": step_rules.profile(record, step), "back_end": step_rules.back_end(record, step)}
        made, failure = task_changes.with_fields(judged.made, **chosen), judged.failure
        record = self._change(partial(task_changes.attempt, number=number, made=made))
        if failure is not None:
            return TaskVerdict(record, done=False, entry=made.entry, failure=failure, output=judged.output)
        record = self._change(
            partial(task_changes.verified, number=number, command=command, evidence=made.entry)
        )
        return self._ended(TaskVerdict(record, done=True, entry=made.entry))

    def attempt(self, number: str, entry: str) -> TaskVerdict:
        """Record a command that was run in the session as an attempt at a step, with the kind of its failure.

        Args:
            number: the step's.
            entry: the journal entry at which the command started, such as `#12`.

        Raises:
            InvalidArgument: the step does not exist, or no command that has ended started there.
            CommandNotFound: its outcome is no longer kept.
        """
        record = self._known()
        step = step_rules.find_step(record, number)
        judged = self._verification().look_up(entry)
        made = task_changes.with_fields(judged.made, back_end=step_rules.back_end(record, step))
        record = self._change(partial(task_changes.attempt, number=number, made=made))
        return TaskVerdict(record, done=False, entry=entry, failure=judged.failure, output=judged.output)

    def _ended(self, verdict: TaskVerdict) -> TaskVerdict:
        """Take a checkpoint if the policy requires one; the step is done in any case."""
        if not checkpoint_policy.due(verdict.record, datetime.now(UTC), step_done=verdict.done):
            return verdict
        try:
            taken = self.checkpoint()
        except (SessionError, SnapshotError, EngineError) as error:
            self._context.progress(f"the checkpoint that the policy asks for was not taken: {error}")
            return verdict
        return replace(verdict, record=self._known(), checkpoint=taken.name)

    def checkpoint(
        self, label: str | None = None, *, resume_at: str | None = None, kind: SnapshotKind = "live"
    ) -> Snapshot:
        """Capture the session together with the record, at one instant.

        Args:
            label: of the snapshot; by default the session's name and a number, from the record's revision on.
            resume_at: where exactly to continue from here.
            kind: of the snapshot.

        Raises:
            LiveUnsupported, CaptureFailed, SessionBusy: nothing was captured, and the record is as it was.
        """
        self.collect_artifacts()
        before = self._known()
        chosen = label or task_checkpoints.free_label(
            self._context.store, self._session.name, before.revision + 1
        )
        self._change(partial(task_changes.checkpoint, snapshot=chosen, resume_at=resume_at))
        session = self._session
        standing = task_checkpoints.repositories(self._context, session.files, session.id)
        try:
            taken = session.snapshot(chosen, kind, reason="checkpoint of the task")
        except BaseException:
            self._change(partial(task_changes.take_back_checkpoint, snapshot=chosen, before=before))
            raise
        if standing is not None:
            self._context.store.keep_snapshot_details(taken.id, repositories=standing.as_dict())
        self._artifacts.locate(chosen)
        return taken

    def handoff(self, budget: int = handing.DEFAULT_BUDGET) -> str:
        """Return a handoff of at most `budget` tokens for a successor, with the changes since the checkpoint.

        Raises:
            InvalidArgument: the session does not have a task, or the budget is too small for its goal.
        """
        record = self._known()
        name, state = self._session.name, self._session.refresh().state
        if state != "running":
            return handing.handoff(name, record, budget, standing=self._way_back(record, state))
        return self._standing(record, "running").handoff(name, budget)

    def resume(self) -> TaskResumed:
        """Make the task's session able to continue, and return the state of the task.

        A suspended session is resumed; a dead one continues from the task's checkpoint, or its last snapshot.

        Raises:
            InvalidArgument: the session does not have a task.
            SessionError, SnapshotError: the session cannot be brought back.
        """
        record = self._known()
        state = self._session.refresh().state
        how = task_resumption.bring_back(self._session, state, self._context.store, record)
        undone: tuple[str, ...] = ()
        if how == "rewound":
            if self.record() is None:  # the snapshot is older than the task, which would be lost
                self._change(partial(task_import.imported, other=record))
            if undone := task_resumption.undone(record, self._known()):
                self._change(partial(task_resumption.undone_noted, gone=undone))
            record = self._known()
        return replace(self._standing(record, how), undone=undone)

    def export(self) -> str:
        """Return the record as Markdown with fixed sections, which `import_` takes."""
        return task_markdown.export(self._known())

    def import_(self, text: str, *, replace: bool = False) -> TaskRecord:
        """Replace the present record by one from Markdown or JSON.

        A step that is ticked there, and verified by a command, is done only if it is done here already, or if
        its evidence is given.

        Args:
            text: the text of `export`, with the additions of people.
            replace: take it even if it lacks what was recorded since it was exported.

        Raises:
            InvalidArgument: it is not a record, a newer version wrote it, or it lacks something that was
                recorded since; the present one is kept.
        """

        def taken(record: TaskRecord | None, stamp: Stamp) -> TaskChange:
            if text.lstrip().startswith("{"):
                other = task_form.parse(text)
            else:
                other = task_markdown.parse(text, by=stamp.by, at=stamp.at)
            last = self._context.store.entries.last(self._session.id)
            return task_import.imported(record, stamp, other, replace=replace, last_entry=last)

        return self._change(taken)

    def _standing(self, record: TaskRecord, how: BroughtBack) -> TaskResumed:
        session = self._session
        moved = task_checkpoints.moved_repositories(self._context, session.files, session.id, record)
        changed = task_checkpoints.drift(self._insight, record)
        running = task_resumption.running_commands(session.name, session.shells.list(), self._insight)
        ran = task_resumption.keyed_commands(self._insight, record)
        return TaskResumed(record, how, changed, moved, tuple(running), tuple(ran))

    def _way_back(self, record: TaskRecord, state: str) -> str:
        """Return the resumption of a session that does not run."""
        name = self._session.name
        try:
            if state == "dead":
                task_checkpoints.to_return_to(self._context.store, self._session.row, record)
        except SessionError as error:
            return f"The session is dead, and none of its snapshots is left: {error.hint}."
        return f"The session is {state}: `holdfast task resume {name}` brings it back."

    def _known(self) -> TaskRecord:
        record = self.record()
        if record is None:
            name = self._session.name
            raise InvalidArgument(
                f"cannot find a task: session {name} does not have one",
                hint=f"`holdfast task set {name} --goal TEXT` begins one",
            )
        return record

    def _verification(self) -> StepVerification:
        return StepVerification(self._line, self._session.files)

    @property
    def _artifacts(self) -> SessionArtifacts:
        of = self._session
        return SessionArtifacts(
            self._context, of.row, self._insight, of.files, of.run, self._known, self._register
        )

    def _register(self, made: TaskArtifact) -> TaskRecord:
        return self._change(partial(task_items.artifact, made=made))

    def _change(self, how: Callable[..., task_changes.TaskChange]) -> TaskRecord:
        return kept_task.change(self._context, self._session.id, how)
