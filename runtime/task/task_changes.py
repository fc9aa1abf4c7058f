"""Changes of a task record: each takes a record and returns the next one, with a line for the journal.  Pure.

The caller keeps the result and the line; nothing here stores, runs or asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.task import task_form
from holdfast.runtime.task.task_record import (
    MOST_ATTEMPTS,
    Decision,
    FileToReread,
    StepAttempt,
    StepStatus,
    TaskArtifact,
    TaskBlock,
    TaskCheckpoint,
    TaskNote,
    TaskPhase,
    TaskRecord,
    TaskStep,
)

Part = TypeVar("Part", bound=BaseModel)
NoteKind = Literal["note", "question", "risk"]
_LISTS = {
    "decision": "decisions",
    "question": "questions",
    "risk": "risks",
    "file": "files",
    "artifact": "artifacts",
    "note": "notes",
}
"""What `drop` can remove, and the field that has it."""
_ATTEMPT_FACTS = {"entry", "outcome", "verified", "failure_type", "failure_detail"}


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who makes a change, and when."""

    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class TaskChange:
    """The next record, one line that says what was changed, and the same as `facts` for the journal.

    Facts: the `step` with its `step_title` and `step_status`; of an attempt its `entry`, `outcome`,
    `failure_type`, `failure_detail` and whether it `verified` the step; a `decision` and its `why`; a `note`.
    """

    record: TaskRecord
    line: str
    facts: Mapping[str, Any] = field(default_factory=dict)


def set_(
    record: TaskRecord | None,
    stamp: Stamp,
    *,
    goal: str | None = None,
    resume_at: str | None = None,
    **policy: Any,
) -> TaskChange:
    """Set the goal, the resume point, or fields of the policy; an empty text removes one.

    Raises:
        InvalidArgument: there is nothing to set, no goal yet, or a value is not valid.
    """
    given = {key: value for key, value in policy.items() if value is not None}
    said = {"goal": goal, "resume_at": resume_at, **given}
    named = [f"{key.replace('_', ' ')}: {value}" for key, value in said.items() if value is not None]
    if not named:
        raise InvalidArgument("cannot set anything: no value was given")
    before = record or _begun(goal, stamp)
    fields: dict[str, Any] = {} if goal is None else {"goal": goal}
    if resume_at is not None:
        fields |= _resume(before, resume_at)
    if given:
        cleared = {key: None if value == "" else value for key, value in given.items()}
        fields["policy"] = with_fields(before.policy, **cleared)
    return changed(before, stamp, "; ".join(named), **fields)


def plan(record: TaskRecord | None, stamp: Stamp, text: str) -> TaskChange:
    """Replace the plan. Steps that keep phase and title keep their status and attempts.

    Args:
        record: the record so far.
        stamp: who changes it.
        text: a line for each phase, then `- STEP` for each step; `- STEP :: COMMAND` verifies it.

    Raises:
        InvalidArgument: the text is not a plan, or a step with attempts or evidence is missing in it.
    """
    before = _there(record)
    known = {(phase.title, step.title): step for phase in before.phases for step in phase.steps}
    phases: list[TaskPhase] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.strip()
        if not words:
            continue
        if not words.startswith("- "):
            phases.append(_made(TaskPhase, title=words.lstrip("# ").removesuffix(":")))
            continue
        if not phases:
            raise InvalidArgument(f"cannot plan: line {number} is a step without a phase before it")
        title, _, verify = words[2:].partition(" :: ")
        step = _made(TaskStep, title=title, verify=verify.strip() or None)
        if any(each.title == step.title for each in phases[-1].steps):
            raise InvalidArgument(
                f"cannot plan: line {number} is a second step '{step.title}' of phase '{phases[-1].title}'",
                hint="give each step of a phase a title of its own",
            )
        old = known.pop((phases[-1].title, step.title), None)
        if old is not None:
            step = old if old.verify == step.verify else with_fields(old, verify=step.verify, **_undone(old))
        phases[-1] = with_fields(phases[-1], steps=(*phases[-1].steps, step))
    if not any(phase.steps for phase in phases):
        raise InvalidArgument("cannot plan: there is no step", hint="write `PHASE`, then `- STEP` lines")
    for (phase, title), step in known.items():
        if step.tries or step.status in ("done", "skipped"):
            raise InvalidArgument(
                f"cannot plan: step '{title}' of phase '{phase}' was worked on and is missing",
                hint="keep its line, or mark it as skipped first",
            )
    steps = sum(len(phase.steps) for phase in phases)
    return changed(before, stamp, f"plan: {len(phases)} phases, {steps} steps", phases=tuple(phases))


def step(
    record: TaskRecord | None,
    stamp: Stamp,
    number: str,
    *,
    status: StepStatus | None = None,
    title: str | None = None,
    verify: str | None = None,
) -> TaskChange:
    """Change one step: its status other than `done`, its title, or its verification (empty: none).

    Raises:
        InvalidArgument: there is no such step, or a value is not valid.
    """
    before = _there(record)
    old = find_step(before, number)
    if status == "done":
        raise InvalidArgument(f"cannot set step {number} to done", hint=f"`holdfast task done S {number}`")
    changes: dict[str, Any] = {} if title is None else {"title": title}
    if verify is not None:
        changes |= {"verify": verify or None, **_undone(old)}
    if status is not None:
        changes |= {"status": status, "evidence": None}
    if not changes:
        raise InvalidArgument(f"cannot change step {number}: no change was given")
    said = ", ".join(f"{key} {value}" for key, value in changes.items() if key != "evidence")
    return _with_step(before, stamp, number, with_fields(old, **changes), f"step {number}: {said}")


def done(record: TaskRecord | None, stamp: Stamp, number: str, evidence: str | None) -> TaskChange:
    """Mark a step as done; `evidence` is the entry of the verification that passed.

    Raises:
        InvalidArgument: it has a verification command and no evidence was given.
    """
    before = _there(record)
    old = find_step(before, number)
    if evidence is None and verification(before, old) is not None:
        raise InvalidArgument(f"cannot mark step {number} as done: its verification has not passed")
    new = with_fields(old, status="done", evidence=evidence)
    # A resume point at this step would send a successor back to what is done.
    if before.resume_at is not None and _names(before.resume_at, number):
        before = with_fields(before, **_resume(before, ""))
    return _with_step(
        before, stamp, number, new, f"step {number} done" + (f" ({evidence})" if evidence else "")
    )


def verified(record: TaskRecord | None, stamp: Stamp, number: str, command: str, evidence: str) -> TaskChange:
    """Mark a step as done by a verification that has passed.

    Raises:
        InvalidArgument: what verifies it was changed meanwhile.
    """
    before = _there(record)
    if command != verification(before, find_step(before, number)):
        raise InvalidArgument(f"cannot mark step {number} as done: its verification was changed meanwhile")
    return done(before, stamp, number, evidence)


def attempt(record: TaskRecord | None, stamp: Stamp, number: str, made: StepAttempt) -> TaskChange:
    """Add an attempt to a step, which is active from then on unless it is done.

    Raises:
        InvalidArgument: there is no such step, or the policy's limit of attempts that failed is reached.
    """
    before = _there(record)
    old = find_step(before, number)
    check_limit(before, number)
    kept = (*old.attempts, made)
    dropped = kept[: max(0, len(kept) - MOST_ATTEMPTS)]
    new = with_fields(
        old,
        status="active" if old.status == "open" else old.status,
        attempts=kept[len(dropped) :],
        earlier_attempts=old.earlier_attempts + len(dropped),
        earlier_failures=old.earlier_failures + sum(each.outcome == "failed" for each in dropped),
    )
    kind = f" ({made.failure_type})" if made.failure_type else ""
    line = f"step {number}: attempt {made.entry} {made.outcome}{kind}"
    change = _with_step(before, stamp, number, new, line)
    facts = made.model_dump(include=_ATTEMPT_FACTS, exclude_none=True)
    return replace(change, facts={**change.facts, **facts})


def check_limit(record: TaskRecord, number: str) -> None:
    """Check that another attempt at a step is allowed.

    Raises:
        InvalidArgument: it has failed as often as the policy allows.
    """
    limit = record.policy.retry_limit
    failed = find_step(record, number).failures
    if limit is not None and failed > limit:
        raise InvalidArgument(
            f"cannot try step {number} again: it has failed {failed} times, and the limit is {limit} retries",
            hint="`holdfast task block`, or raise the limit: `holdfast task set S --retry-limit N`",
        )


def decide(record: TaskRecord | None, stamp: Stamp, text: str, why: str) -> TaskChange:
    """Lock a decision.

    Raises:
        InvalidArgument: the same decision is locked already, or a text is not valid.
    """
    before = _there(record)
    made = _made(Decision, text=text, why=why, at=stamp.at, by=stamp.by)
    if any(each.text == made.text for each in before.decisions):
        raise InvalidArgument("cannot lock this decision: it is locked already")
    change = changed(before, stamp, f"decided: {made.text}", decisions=(*before.decisions, made))
    return replace(change, facts={"decision": made.text, "why": made.why})


def note(record: TaskRecord | None, stamp: Stamp, text: str, kind: NoteKind = "note") -> TaskChange:
    """Add an open question, a risk, or a remark.

    Raises:
        InvalidArgument: it is of another kind, or the text is not valid.
    """
    before = _there(record)
    if kind not in get_args(NoteKind):
        raise InvalidArgument(f"cannot add a '{plain(kind, 40)}'", hint="known: note, question, risk")
    made = _made(TaskNote, text=text, at=stamp.at, by=stamp.by)
    name = _LISTS[kind]
    change = changed(before, stamp, f"{kind}: {made.text}", **{name: (*getattr(before, name), made)})
    return replace(change, facts={"note": made.text})


def read_again(record: TaskRecord | None, stamp: Stamp, path: str, why: str | None = None) -> TaskChange:
    """Add a file to read again; one that is listed gets the new reason."""
    before = _there(record)
    made = _made(FileToReread, path=path, why=why)
    others = tuple(each for each in before.files if each.path != made.path)
    return changed(before, stamp, f"to read again: {made.path}", files=(*others, made))


def artifact(record: TaskRecord | None, stamp: Stamp, made: TaskArtifact) -> TaskChange:
    """Register an artifact; one of the same name is replaced."""
    before = _there(record)
    others = tuple(each for each in before.artifacts if each.name != made.name)
    return changed(before, stamp, f"artifact {made.name}: {made.path}", artifacts=(*others, made))


def block(
    record: TaskRecord | None,
    stamp: Stamp,
    why: str,
    needs: str,
    *,
    step_number: str | None = None,
    entry: str | None = None,
    tried: str | None = None,
) -> TaskChange:
    """Record what blocks the work and what would unblock it; its step is blocked with it."""
    before = _there(record)
    made = _made(
        TaskBlock, why=why, needs=needs, at=stamp.at, by=stamp.by, step=step_number, entry=entry, tried=tried
    )
    if step_number is not None:
        status = with_fields(find_step(before, step_number), status="blocked")
        before = _replaced(before, step_number, status)
    return changed(before, stamp, f"blocked: {made.why}", blocked=made)


def unblock(record: TaskRecord | None, stamp: Stamp) -> TaskChange:
    """Record that nothing blocks the work any more; its step is active again.

    Raises:
        InvalidArgument: nothing blocks it.
    """
    before = _there(record)
    if before.blocked is None:
        raise InvalidArgument("cannot unblock the task: nothing blocks it")
    block_was, number = before.blocked, before.blocked.step
    if number is not None and any(number == each for each, _ in before.steps()):
        blocked = find_step(before, number)
        if blocked.status == "blocked":
            before = _replaced(before, number, with_fields(blocked, status="active"))
    return changed(before, stamp, f"unblocked: {block_was.why}", blocked=None)


def checkpoint(record: TaskRecord | None, stamp: Stamp, snapshot: str, resume_at: str | None) -> TaskChange:
    """Record that a snapshot is taken together with this record."""
    before = _there(record)
    made = _made(TaskCheckpoint, snapshot=snapshot, at=stamp.at, by=stamp.by)
    located = tuple(
        each if each.snapshot is not None else with_fields(each, snapshot=made.snapshot)
        for each in before.artifacts
    )
    fields: dict[str, Any] = {"checkpoint": made, "artifacts": located}
    if resume_at is not None:
        fields |= _resume(before, resume_at)
    return changed(before, stamp, f"checkpoint {snapshot}", **fields)


def take_back_checkpoint(
    record: TaskRecord | None, stamp: Stamp, snapshot: str, before: TaskRecord
) -> TaskChange:
    """Undo `checkpoint`, whose snapshot could not be taken, unless another one was recorded meanwhile."""
    now = _there(record)
    fields: dict[str, Any] = {}
    if now.checkpoint is not None and now.checkpoint.snapshot == snapshot:
        missing = tuple(
            with_fields(each, snapshot=None) if each.snapshot == snapshot else each for each in now.artifacts
        )
        fields = {"checkpoint": before.checkpoint, "artifacts": missing, "resume_at": before.resume_at}
        fields["resume_revision"] = before.resume_revision
    return changed(now, stamp, f"checkpoint {snapshot} was not taken", **fields)


def drop(record: TaskRecord | None, stamp: Stamp, kind: str, number: int) -> TaskChange:
    """Remove an item by its number, from 1: a question that is answered, a risk that is gone.

    Raises:
        InvalidArgument: there is no such item.
    """
    before = _there(record)
    name = _LISTS.get(kind)
    if name is None:
        raise InvalidArgument(f"cannot drop a '{plain(kind, 40)}'", hint=f"known: {', '.join(_LISTS)}")
    items: tuple[BaseModel, ...] = getattr(before, name)
    if not 1 <= number <= len(items):
        raise InvalidArgument(f"cannot drop {kind} {number}: there are {len(items)}")
    left = items[: number - 1] + items[number:]
    what = next(iter(items[number - 1].model_dump().values()))
    return changed(before, stamp, f"dropped {kind}: {what}", **{name: left})


def find_step(record: TaskRecord, number: str) -> TaskStep:
    """Return the step with a number.

    Raises:
        InvalidArgument: there is none.
    """
    steps = dict(record.steps())
    if number not in steps:
        known = ", ".join(steps) or "none: `holdfast task plan` makes them"
        raise InvalidArgument(f"cannot find step {plain(number, 40)}", hint=f"steps: {known}")
    return steps[number]


def verification(record: TaskRecord, of: TaskStep) -> str | None:
    """Return the command that verifies a step: its own, else the policy's."""
    return of.verify or record.policy.verify


def _begun(goal: str | None, stamp: Stamp) -> TaskRecord:
    return _made(TaskRecord, goal=goal, updated=stamp.at, by=stamp.by) if goal is not None else _there(None)


def _there(record: TaskRecord | None) -> TaskRecord:
    if record is None:
        raise InvalidArgument(
            "cannot change the task: the session has none",
            hint="begin with `holdfast task set S --goal TEXT`",
        )
    return record


def _resume(before: TaskRecord, text: str) -> dict[str, Any]:
    """Return the fields of a resume point, with the revision of its change; an empty text removes it."""
    return {"resume_at": text or None, "resume_revision": before.revision + 1 if text else None}


def _names(text: str, number: str) -> bool:
    """Return whether a resume point begins with the number of a step, as in `step 2.1: …`."""
    first = text.removeprefix("step ").split(maxsplit=1)[:1]
    return first == [number] or first == [f"{number}:"]


def _undone(old: TaskStep) -> dict[str, Any]:
    """Return what a step loses with its verification command: it was not passed by the new one."""
    return {"status": "active", "evidence": None} if old.status == "done" else {}


def _with_step(before: TaskRecord, stamp: Stamp, number: str, new: TaskStep, line: str) -> TaskChange:
    change = changed(_replaced(before, number, new), stamp, line)
    return replace(change, facts={"step": number, "step_title": new.title, "step_status": new.status})


def _replaced(record: TaskRecord, number: str, new: TaskStep) -> TaskRecord:
    major, minor = (int(part) for part in number.split("."))
    phase = record.phases[major - 1]
    steps = (*phase.steps[: minor - 1], new, *phase.steps[minor:])
    phases = (*record.phases[: major - 1], with_fields(phase, steps=steps), *record.phases[major:])
    return with_fields(record, phases=phases)


def changed(before: TaskRecord, stamp: Stamp, line: str, **fields: Any) -> TaskChange:
    """Return the next revision, with other values of some fields.

    Raises:
        InvalidArgument: a value is not valid, or the record would be too large.
    """
    now = with_fields(before, **fields, revision=before.revision + 1, updated=stamp.at, by=stamp.by)
    task_form.dump(now)  # raises if it is too large
    return TaskChange(now, line)


def with_fields(part: Part, **fields: Any) -> Part:
    """Return a part of a record with other values of some fields, which must be valid as in `changed`."""
    kept = {name: getattr(part, name) for name in type(part).model_fields}
    return _made(type(part), **{**kept, **fields})


def _made(kind: type[Part], **fields: Any) -> Part:
    try:
        return kind(**fields)
    except ValidationError as error:
        raise InvalidArgument(f"cannot change the task: {task_form.why(error)}") from error
