"""The policy of automatic checkpoints of a task.  Pure.

A policy is `step`, after each step that is done, and a time such as `30m`, if the last one is older than that
when something is recorded; or both.
"""

from __future__ import annotations

from datetime import datetime

from holdfast.base.quantities import parse_duration
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.task.task_record import TaskRecord

EACH_STEP = "step"


def check(text: str) -> None:
    """Check that a text is a policy, or empty.

    Raises:
        InvalidArgument: it is not.
    """
    for word in text.split():
        if word != EACH_STEP and not parse_duration(word):
            raise InvalidArgument(
                f"cannot take checkpoints at '{plain(word, 40)}'",
                hint="`step`, a time such as `30m`, or both",
            )


def due(record: TaskRecord, now: datetime, *, step_done: bool) -> bool:
    """Return whether a checkpoint is to be taken now; `step_done`: a step has just been marked as done."""
    words = (record.policy.checkpoint or "").split()
    if step_done and EACH_STEP in words:
        return True
    ages = [parse_duration(word) for word in words if word != EACH_STEP]
    last = record.checkpoint
    return any(age is not None and (last is None or (now - last.at).total_seconds() >= age) for age in ages)
