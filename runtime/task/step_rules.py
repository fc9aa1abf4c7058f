"""The rules of a step of a task: its verification, back end, and claims.  Pure.

It reads records; `task_changes` changes them.
"""

from __future__ import annotations

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.task.task_record import TaskRecord, TaskStep

ENDED = ("done", "skipped")
"""Statuses of steps that have come to their end."""
PROFILE_MARK = "@"
"""Before the name of a profile, in place of a command that verifies."""


def find_step(record: TaskRecord, number: str) -> TaskStep:
    """Return the step with a number.

    Raises:
        InvalidArgument: there is none.
    """
    steps = dict(record.steps())
    if number not in steps:
        known = ", ".join(steps) or "none yet: `holdfast task plan` makes them"
        raise InvalidArgument(f"cannot find step {plain(number, 40)}", hint=f"steps: {known}")
    return steps[number]


def verification(record: TaskRecord, of: TaskStep) -> str | None:
    """Return the command that verifies a step: its own, else the policy's; a profile's if it names one.

    Raises:
        InvalidArgument: the policy does not have that profile.
    """
    name = profile(record, of)
    if name is None:
        return of.verify or record.policy.verify
    if name not in record.policy.profiles:
        raise InvalidArgument(
            f"cannot verify a step by profile '{plain(name, 40)}': the policy has no profile with this name",
            hint=f"`holdfast task set S --profile {plain(name, 40)}=COMMAND`",
        )
    return record.policy.profiles[name]


def profile(record: TaskRecord, of: TaskStep) -> str | None:
    """Return the name of the profile that verifies a step; None if it is verified otherwise."""
    chosen = of.verify or record.policy.verify or ""
    return chosen[1:] if chosen.startswith(PROFILE_MARK) else None


def back_end(record: TaskRecord, of: TaskStep) -> str | None:
    """Return the back end that a step is worked on with: its own, else the policy's."""
    return of.back_end or record.policy.back_end


def check_limit(record: TaskRecord, number: str) -> None:
    """Check that a further attempt at a step is allowed.

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


def check_free(record: TaskRecord, number: str, by: str) -> None:
    """Check that a step can be marked as done: no other actor has claimed it, and no question is open.

    Raises:
        InvalidArgument: it cannot, with the reason.
    """
    check_claim(find_step(record, number), number, by)
    for place, each in enumerate(record.questions, start=1):
        if each.step == number:
            raise InvalidArgument(
                f"cannot finish step {number}: question {place} is open, '{plain(each.text, 80)}'",
                hint=f"`holdfast task answer S {place} TEXT`, or `holdfast task drop S question {place}`",
            )


def check_claim(of: TaskStep, number: str, by: str) -> None:
    """Check that only `by`, if anyone, has claimed a step.

    Raises:
        InvalidArgument: another has.
    """
    if of.claim is not None and of.claim.by != by:
        raise InvalidArgument(
            f"cannot work on step {number}: {plain(of.claim.by, 80)} has been at it since "
            f"{of.claim.at:%Y-%m-%d %H:%M} UTC",
            hint=f"choose another step, or take it over: `holdfast task claim S {number} --take`",
        )
