"""Changes of a task record: each takes a record and returns the next one, with a line for the journal.  Pure.

The caller keeps the result and the line; nothing here stores, runs or asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.task import checkpoint_policy, task_form
from holdfast.runtime.task.step_rules import (
    ENDED,
    check_claim,
    check_free,
    check_limit,
    find_step,
    verification,
)
from holdfast.runtime.task.task_record import (
    LONGEST_TEXT,
    MOST_ATTEMPTS,
    StepAttempt,
    StepClaim,
    StepStatus,
    TaskBlock,
    TaskCheckpoint,
    TaskNote,
    TaskPhase,
    TaskRecord,
    TaskStep,
)

Part = TypeVar("Part", bound=BaseModel)
_ATTEMPT_FACTS = {"entry", "outcome", "verified", "profile", "back_end", "failure_type", "failure_detail"}


@dataclass(frozen=True, slots=True)
class Stamp:
    """The author and the time of a change."""

    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class TaskChange:
    """The next record, a one-line description of the change, and its `facts` for the journal.

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

    The given `profiles` are added or replaced.

    Raises:
        InvalidArgument: there is nothing to set, no goal yet, or a value is not valid.
    """
    given = {key: value for key, value in policy.items() if value is not None}
    if "checkpoint" in given:
        checkpoint_policy.check(given["checkpoint"])
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
        if profiles := given.get("profiles"):
            all_of_them = {**before.policy.profiles, **profiles}
            cleared["profiles"] = {name: command for name, command in all_of_them.items() if command}
        fields["policy"] = with_fields(before.policy, **cleared)
    return changed(before, stamp, "; ".join(named), **fields)


def plan(record: TaskRecord | None, stamp: Stamp, text: str) -> TaskChange:
    """Replace the plan. Steps that keep phase and title keep their status and attempts.

    Args:
        record: the record so far.
        stamp: the author of the change.
        text: a line for each phase, then `- STEP` for each step; `- STEP :: COMMAND` verifies it.

    Raises:
        InvalidArgument: the text is not a plan, or a step with attempts or evidence is missing in it.
    """
    before = existing(record)
    known = {(phase.title, step.title): step for phase in before.phases for step in phase.steps}
    phases: list[TaskPhase] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.strip()
        if not words:
            continue
        if not words.startswith("- "):
            phases.append(made_part(TaskPhase, title=words.lstrip("# ").removesuffix(":")))
            continue
        if not phases:
            raise InvalidArgument(f"cannot plan: line {number} is a step without a phase before it")
        title, _, verify = words[2:].partition(" :: ")
        step = made_part(TaskStep, title=title, verify=verify.strip() or None)
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
    line = f"plan: {len(phases)} phases, {steps} steps"
    return changed(before, stamp, line, phases=tuple(phases), **_following(before, phases))


def _following(before: TaskRecord, phases: Sequence[TaskPhase]) -> dict[str, Any]:
    """Return references to steps with the numbers of a new plan; None if a step is missing in it."""
    places = {
        (phase.title, step.title): f"{major}.{minor}"
        for major, phase in enumerate(phases, start=1)
        for minor, step in enumerate(phase.steps, start=1)
    }
    now = {
        number: places.get((before.phases[int(number.partition(".")[0]) - 1].title, step.title))
        for number, step in before.steps()
    }
    questions = tuple(
        each if each.step is None else with_fields(each, step=now.get(each.step)) for each in before.questions
    )
    block = before.blocked
    if block is not None and block.step is not None:
        block = with_fields(block, step=now.get(block.step))
    return {"questions": questions, "blocked": block}


def step(
    record: TaskRecord | None,
    stamp: Stamp,
    number: str,
    *,
    status: StepStatus | None = None,
    title: str | None = None,
    verify: str | None = None,
    back_end: str | None = None,
) -> TaskChange:
    """Change one step: its status other than `done`, its title, its verification or back end (empty: none).

    Raises:
        InvalidArgument: there is no such step, or a value is not valid.
    """
    before = existing(record)
    old = find_step(before, number)
    if status == "done":
        raise InvalidArgument(f"cannot set step {number} to done", hint=f"`holdfast task done S {number}`")
    changes: dict[str, Any] = {} if title is None else {"title": title}
    if title is not None:
        _check_title(before, number, title)
    if verify is not None:
        changes |= {"verify": verify or None, **_undone(old)}
    if back_end is not None:
        changes["back_end"] = back_end or None
    if status is not None:
        check_claim(old, number, stamp.by)
        changes |= {"status": status, "evidence": None}
        changes |= {"claim": None} if status in ENDED else {}
    if not changes:
        raise InvalidArgument(f"cannot change step {number}: no change was given")
    silent = ("evidence", "claim")
    said = ", ".join(
        f"{key.replace('_', ' ')} {value}" for key, value in changes.items() if key not in silent
    )
    return _with_step(before, stamp, number, with_fields(old, **changes), f"step {number}: {said}")


def _check_title(record: TaskRecord, number: str, title: str) -> None:
    """Check that no other step of a step's phase has this title, by which a later plan finds it."""
    phase = number.partition(".")[0]
    others = (each.title for at, each in record.steps() if at != number and at.partition(".")[0] == phase)
    if " ".join(title.split()) in others:
        raise InvalidArgument(
            f"cannot call step {number} '{plain(title, 60)}': a step of its phase already has that title",
            hint="give each step of a phase a title of its own",
        )


def done(record: TaskRecord | None, stamp: Stamp, number: str, evidence: str | None) -> TaskChange:
    """Mark a step as done; `evidence` is the entry of the verification that passed.

    Raises:
        InvalidArgument: it has a verification command and no evidence was given.
    """
    before = existing(record)
    old = find_step(before, number)
    if evidence is None and verification(before, old) is not None:
        raise InvalidArgument(f"cannot mark step {number} as done: its verification has not passed")
    check_free(before, number, stamp.by)
    new = with_fields(old, status="done", evidence=evidence, claim=None)
    # A resume point at this step would send a successor back to what is done.
    if before.resume_at is not None and _names(before.resume_at, number):
        before = with_fields(before, **_resume(before, ""))
    line = f"step {number} done" + (f" ({evidence})" if evidence else "")
    change = _with_step(before, stamp, number, new, line)
    return replace(change, facts={**change.facts, "evidence": evidence})


def verified(record: TaskRecord | None, stamp: Stamp, number: str, command: str, evidence: str) -> TaskChange:
    """Mark a step as done by a verification that has passed.

    Raises:
        InvalidArgument: its verification was changed in the meantime.
    """
    before = existing(record)
    if command != verification(before, find_step(before, number)):
        raise InvalidArgument(
            f"cannot mark step {number} as done: its verification was changed in the meantime"
        )
    return done(before, stamp, number, evidence)


def attempt(record: TaskRecord | None, stamp: Stamp, number: str, made: StepAttempt) -> TaskChange:
    """Add an attempt to a step, which is active from then on unless it is done.

    Raises:
        InvalidArgument: there is no such step, or the policy's limit of attempts that failed is reached.
    """
    before = existing(record)
    old = find_step(before, number)
    check_claim(old, number, stamp.by)
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
    """Record the blocker of the work and its remedy; the step is blocked as well."""
    before = existing(record)
    made = made_part(
        TaskBlock, why=why, needs=needs, at=stamp.at, by=stamp.by, step=step_number, entry=entry, tried=tried
    )
    if step_number is not None:
        status = with_fields(find_step(before, step_number), status="blocked")
        before = _replaced(before, step_number, status)
    facts = {"blocked": made.why, "needs": made.needs}
    return replace(changed(before, stamp, f"blocked: {made.why}", blocked=made), facts=facts)


def unblock(record: TaskRecord | None, stamp: Stamp, how: str | None = None) -> TaskChange:
    """Record that the work is no longer blocked, and how; its step is active again.

    Raises:
        InvalidArgument: nothing blocks it.
    """
    before = existing(record)
    if before.blocked is None:
        raise InvalidArgument("cannot unblock the task: nothing blocks it")
    block_was, number = before.blocked, before.blocked.step
    if number is not None and any(number == each for each, _ in before.steps()):
        blocked = find_step(before, number)
        if blocked.status == "blocked":
            before = _replaced(before, number, with_fields(blocked, status="active"))
    line = f"unblocked: {block_was.why}"
    facts = {"unblocked": block_was.why, **({"how": how} if how else {})}
    if how is None:
        return replace(changed(before, stamp, line, blocked=None), facts=facts)
    made = made_part(TaskNote, text=plain(f"{line}; {how}", LONGEST_TEXT), at=stamp.at, by=stamp.by)
    change = changed(before, stamp, made.text, blocked=None, notes=(*before.notes, made))
    return replace(change, facts=facts)


def checkpoint(record: TaskRecord | None, stamp: Stamp, snapshot: str, resume_at: str | None) -> TaskChange:
    """Record that a snapshot is taken together with this record."""
    before = existing(record)
    made = made_part(TaskCheckpoint, snapshot=snapshot, at=stamp.at, by=stamp.by)
    located = tuple(
        each if each.snapshot is not None else with_fields(each, snapshot=made.snapshot)
        for each in before.artifacts
    )
    fields: dict[str, Any] = {"checkpoint": made, "artifacts": located}
    if resume_at is not None:
        fields |= _resume(before, resume_at)
    return replace(changed(before, stamp, f"checkpoint {snapshot}", **fields), facts={"checkpoint": snapshot})


def take_back_checkpoint(
    record: TaskRecord | None, stamp: Stamp, snapshot: str, before: TaskRecord
) -> TaskChange:
    """Undo `checkpoint`, whose snapshot could not be taken, unless a newer one has been recorded."""
    now = existing(record)
    fields: dict[str, Any] = {}
    if now.checkpoint is not None and now.checkpoint.snapshot == snapshot:
        missing = tuple(
            with_fields(each, snapshot=None) if each.snapshot == snapshot else each for each in now.artifacts
        )
        fields = {"checkpoint": before.checkpoint, "artifacts": missing, "resume_at": before.resume_at}
        fields["resume_revision"] = before.resume_revision
    return changed(now, stamp, f"checkpoint {snapshot} was not taken", **fields)


def claim(record: TaskRecord | None, stamp: Stamp, number: str, *, take: bool = False) -> TaskChange:
    """Claim a step, which is active from then on: others are refused to mark it as done, or to claim it.

    Raises:
        InvalidArgument: it is done or skipped, or another has claimed it; `take` takes it over.
    """
    before = existing(record)
    old = find_step(before, number)
    if old.status in ENDED:
        raise InvalidArgument(f"cannot claim step {number}: it is {old.status}")
    if not take:
        check_claim(old, number, stamp.by)
    made = made_part(StepClaim, by=stamp.by, at=stamp.at)
    new = with_fields(old, claim=made, status="active" if old.status == "open" else old.status)
    was = f", taken over from {old.claim.by}" if old.claim is not None and old.claim.by != stamp.by else ""
    return _with_step(before, stamp, number, new, f"step {number}: claimed{was}")


def release(record: TaskRecord | None, stamp: Stamp, number: str) -> TaskChange:
    """Give up the claim of a step, one's own or someone else's.

    Raises:
        InvalidArgument: it is not claimed.
    """
    before = existing(record)
    old = find_step(before, number)
    if old.claim is None:
        raise InvalidArgument(f"cannot release step {number}: it is not claimed")
    line = f"step {number}: released by {stamp.by}, claimed by {old.claim.by}"
    return _with_step(before, stamp, number, with_fields(old, claim=None), line)


def _begun(goal: str | None, stamp: Stamp) -> TaskRecord:
    return (
        made_part(TaskRecord, goal=goal, updated=stamp.at, by=stamp.by)
        if goal is not None
        else existing(None)
    )


def existing(record: TaskRecord | None) -> TaskRecord:
    """Return the record.

    Raises:
        InvalidArgument: there is none.
    """
    if record is None:
        raise InvalidArgument(
            "cannot change the task: the session does not have one",
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
    """Return the fields a step loses with its verification command: the new one has not passed."""
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
    """Return the next revision, with new values of some fields.

    Raises:
        InvalidArgument: a value is not valid, or the record would be too large.
    """
    now = with_fields(before, **fields, revision=before.revision + 1, updated=stamp.at, by=stamp.by)
    task_form.dump(now)  # raises if it is too large
    return TaskChange(now, line)


def with_fields(part: Part, **fields: Any) -> Part:
    """Return a part of a record with new values of some fields, which must be valid as in `changed`."""
    kept = {name: getattr(part, name) for name in type(part).model_fields}
    return made_part(type(part), **{**kept, **fields})


def made_part(kind: type[Part], **fields: Any) -> Part:
    """Return a part of a record.

    Raises:
        InvalidArgument: a value is not valid.
    """
    try:
        return kind(**fields)
    except ValidationError as error:
        raise InvalidArgument(f"cannot change the task: {task_form.why(error)}") from error
