"""Items of a task record: decisions, paths not taken, questions, answers, risks, notes, files.  Pure.

Changes to the lists of a record, made as in `task_changes`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

from pydantic import BaseModel

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.task.step_rules import find_step
from holdfast.runtime.task.task_changes import (
    Stamp,
    TaskChange,
    changed,
    existing,
    made_part,
    with_fields,
)
from holdfast.runtime.task.task_record import Decision, FileToReread, TaskArtifact, TaskNote, TaskRecord

NoteKind = Literal["note", "question", "risk"]
LISTS = {
    "decision": "decisions",
    "alternative": "alternatives",
    "question": "questions",
    "risk": "risks",
    "file": "files",
    "artifact": "artifacts",
    "note": "notes",
}
"""The items that `drop` can remove, and the field that has each."""


def decide(record: TaskRecord | None, stamp: Stamp, text: str, why: str) -> TaskChange:
    """Lock a decision.

    Raises:
        InvalidArgument: the same decision is locked already, or a text is not valid.
    """
    before = existing(record)
    made = made_part(Decision, text=text, why=why, at=stamp.at, by=stamp.by)
    if any(each.text == made.text for each in before.decisions):
        raise InvalidArgument("cannot lock this decision: it is locked already")
    change = changed(before, stamp, f"decided: {made.text}", decisions=(*before.decisions, made))
    return replace(change, facts={"decision": made.text, "why": made.why})


def alternative(record: TaskRecord | None, stamp: Stamp, text: str, why: str) -> TaskChange:
    """Record a rejected path and the reason: a successor can have cause to take it.

    Raises:
        InvalidArgument: a text is not valid.
    """
    before = existing(record)
    made = made_part(Decision, text=text, why=why, at=stamp.at, by=stamp.by)
    others = tuple(each for each in before.alternatives if each.text != made.text)
    change = changed(before, stamp, f"not taken: {made.text}", alternatives=(*others, made))
    return replace(change, facts={"alternative": made.text, "why": made.why})


def note(
    record: TaskRecord | None, stamp: Stamp, text: str, kind: NoteKind = "note", step: str | None = None
) -> TaskChange:
    """Add an open question, a risk, or a remark; a question with a step blocks that step.

    Raises:
        InvalidArgument: its kind or text is not valid, or there is no such step.
    """
    before = existing(record)
    if kind not in get_args(NoteKind):
        raise InvalidArgument(f"cannot add a '{plain(kind, 40)}'", hint="known: note, question, risk")
    if step is not None:
        find_step(before, step)
    made = made_part(TaskNote, text=text, at=stamp.at, by=stamp.by, step=step)
    name = LISTS[kind]
    change = changed(before, stamp, f"{kind}: {made.text}", **{name: (*getattr(before, name), made)})
    return replace(change, facts={"note": made.text})


def answer(record: TaskRecord | None, stamp: Stamp, number: int, text: str) -> TaskChange:
    """Answer an open question by its number, from 1: the answer is a decision from then on.

    Raises:
        InvalidArgument: there is no such question, or the answer is decided already.
    """
    before = existing(record)
    if not 1 <= number <= len(before.questions):
        raise InvalidArgument(f"cannot answer question {number}: there are {len(before.questions)}")
    asked = before.questions[number - 1].text
    left = before.questions[: number - 1] + before.questions[number:]
    change = decide(with_fields(before, questions=left), stamp, text, why=plain(f"answers: {asked}", 1000))
    return replace(change, line=f"answered: {asked}; {text}")


def read_again(record: TaskRecord | None, stamp: Stamp, path: str, why: str | None = None) -> TaskChange:
    """Add a file to read again; a listed file gets the new reason."""
    before = existing(record)
    made = made_part(FileToReread, path=path, why=why)
    others = tuple(each for each in before.files if each.path != made.path)
    return changed(before, stamp, f"to read again: {made.path}", files=(*others, made))


def artifact(record: TaskRecord | None, stamp: Stamp, made: TaskArtifact) -> TaskChange:
    """Register an artifact; an artifact of the same name is replaced."""
    before = existing(record)
    others = tuple(each for each in before.artifacts if each.name != made.name)
    return changed(before, stamp, f"artifact {made.name}: {made.path}", artifacts=(*others, made))


def drop(record: TaskRecord | None, stamp: Stamp, kind: str, number: int) -> TaskChange:
    """Remove an item by its number, from 1: an answered question, a past risk.

    Raises:
        InvalidArgument: there is no such item.
    """
    before = existing(record)
    name = LISTS.get(kind)
    if name is None:
        raise InvalidArgument(f"cannot drop a '{plain(kind, 40)}'", hint=f"known: {', '.join(LISTS)}")
    items: tuple[BaseModel, ...] = getattr(before, name)
    if not 1 <= number <= len(items):
        raise InvalidArgument(f"cannot drop {kind} {number}: there are {len(items)}")
    left = items[: number - 1] + items[number:]
    what = next(iter(items[number - 1].model_dump().values()))
    return changed(before, stamp, f"dropped {kind}: {what}", **{name: left})
