"""The progress of the tasks of all sessions, one value each. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.base.value_classes import as_table
from holdfast.errors import InvalidArgument
from holdfast.runtime.task import kept_task, step_rules
from holdfast.runtime.task.step_rules import ENDED
from holdfast.runtime.task.task_record import TaskRecord, TaskStep

if TYPE_CHECKING:
    from holdfast.runtime.store.rows import SessionRow


@dataclass(frozen=True, slots=True)
class StepStanding:
    """The state of a step, with its back end and verification, and its last attempt's.

    `verify` is a command, or a profile such as `@quick`. `last` is the last attempt's outcome,
    `last_profile` and `last_back_end` are its settings; empty without one.
    """

    number: str
    title: str
    status: str
    back_end: str = ""
    verify: str = ""
    claimed_by: str = ""
    attempts: int = 0
    failures: int = 0
    last: str = ""
    last_profile: str = ""
    last_back_end: str = ""


@dataclass(frozen=True, slots=True)
class PhaseStanding:
    """The progress of a phase: the number of steps done or skipped, and the state of each."""

    title: str
    done: int
    steps: int
    each: tuple[StepStanding, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskStanding:
    """The progress of one session's task.

    `session_state` is the session's; `state` the task's: planned, active, blocked, done, or unreadable (a
    newer version wrote it). `step` is the first unfinished one, `phase` its phase, `back_end` and `verify`
    its choices, `claimed_by` its claimant. `phases` are all of them with their finished steps. `attempts`
    counts all steps' attempts, `questions` the open ones. `updated` and `checkpoint_at` are in UTC, as ISO
    8601.
    """

    session_id: str
    session: str
    session_state: str
    state: str
    goal: str = ""
    done: int = 0
    steps: int = 0
    step: str = ""
    blocked: str = ""
    needs: str = ""
    attempts: int = 0
    checkpoint: str = ""
    checkpoint_at: str = ""
    by: str = ""
    updated: str = ""
    phase: str = ""
    back_end: str = ""
    verify: str = ""
    claimed_by: str = ""
    questions: int = 0
    phases: tuple[PhaseStanding, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        return as_table(self)


def standings(rows: Iterable[SessionRow]) -> list[TaskStanding]:
    """Return the progress of these sessions' tasks; sessions without a task are left out."""
    return [_standing(row) for row in rows if row.details.task is not None]


def _standing(row: SessionRow) -> TaskStanding:
    try:
        record = kept_task.of(row)
    except InvalidArgument:
        record = None
    if record is None:
        return TaskStanding(row.id, row.name, row.state, "unreadable")
    done, total = record.finished
    waiting = next(((number, step) for number, step in record.steps() if step.status not in ENDED), None)
    number, step = waiting if waiting is not None else ("", TaskStep(title="-"))
    phase = record.phases[int(number.partition(".")[0]) - 1].title if number else ""
    phases = tuple(
        PhaseStanding(
            each.title,
            sum(one.status in ENDED for one in each.steps),
            len(each.steps),
            tuple(_step(record, f"{major}.{minor}", one) for minor, one in enumerate(each.steps, start=1)),
        )
        for major, each in enumerate(record.phases, start=1)
    )
    kept = record.checkpoint
    return TaskStanding(
        session_id=row.id,
        session=row.name,
        session_state=row.state,
        state=record.state,
        goal=record.goal,
        done=done,
        steps=total,
        step=f"{number} {step.title}" if number else "",
        blocked=record.blocked.why if record.blocked else "",
        needs=record.blocked.needs if record.blocked else "",
        attempts=sum(step.tries for _, step in record.steps()),
        checkpoint=kept.snapshot if kept else "",
        checkpoint_at=kept.at.isoformat() if kept else "",
        by=record.by,
        updated=record.updated.isoformat(),
        phase=phase,
        back_end=step_rules.back_end(record, step) or "",
        verify=step.verify or record.policy.verify or "",
        claimed_by=step.claim.by if step.claim is not None else "",
        questions=len(record.questions),
        phases=phases,
    )


def _step(record: TaskRecord, number: str, step: TaskStep) -> StepStanding:
    last = step.attempts[-1] if step.attempts else None
    return StepStanding(
        number=number,
        title=step.title,
        status=step.status,
        back_end=step_rules.back_end(record, step) or "",
        verify=step.verify or record.policy.verify or "",
        claimed_by=step.claim.by if step.claim is not None else "",
        attempts=step.tries,
        failures=step.failures,
        last=last.outcome if last is not None else "",
        last_profile=(last.profile or "") if last is not None else "",
        last_back_end=(last.back_end or "") if last is not None else "",
    )
