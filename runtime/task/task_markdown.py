"""The task record as Markdown with fixed sections, for trackers and people, and back without loss.  Pure.

An item is a list line; its other fields are `- name: value` lines below it. Every value is one line, so
that nothing has to be escaped. Sections must all be there; a line that is not understood is refused by its
number. What people add may be written as they write lists elsewhere: other bullets and indentation, `[X]`,
steps and phases without numbers, comments, text below *Notes*, and items that do not say who wrote them,
and when.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.task import task_form
from holdfast.runtime.task.task_record import TaskRecord

STATUS = "Current status"
POLICY = "Policy"
PLAN = "Plan"
BLOCKED = "Blocked"
RESUME = "Resume instruction"
LISTS: Mapping[str, tuple[str, str]] = {
    "Decisions locked": ("decisions", "text"),
    "Paths not taken": ("alternatives", "text"),
    "Open questions": ("questions", "text"),
    "Risks": ("risks", "text"),
    "Files to read again": ("files", "path"),
    "Artifacts": ("artifacts", "name"),
    "Notes": ("notes", "text"),
}
"""Sections of a list each: the record's field, and the item's field that is its first line."""
SECTIONS = (STATUS, BLOCKED, RESUME, POLICY, PLAN, *LISTS)
OPTIONAL = frozenset({"Paths not taken"})
"""Sections that a record of an earlier version lacks."""
NOTHING = "None."
LONGEST = 256 << 10
"""Characters that are read: a record of the largest size takes fewer."""
_TITLE = "# Task: "
_CHECKPOINT = "checkpoint "
_STEP = re.compile(r"- \[([ xX])\] (?:(\d+\.\d+) )?(.*)")
_PHASE = re.compile(r"### (?:\d+\. )?(.*)")
_BULLET = re.compile(r"([ \t]*)[*+] ")
_SIGNED = ("decisions", "alternatives", "questions", "risks", "notes")
"""Lists whose items say who wrote them, and when."""
_NO_REASON = "no reason was given"
_FIELD = re.compile(r"- ([a-z_ ]+|profile [a-z][a-z0-9_-]*): (.*)")
_PROFILE = "profile_"
_CLAIM = "claim_"
_NUMBERS = frozenset({"format", "revision", "resume_revision", "retry_limit", "exit_code", "bytes"})
_NUMBERS |= {"earlier_attempts", "earlier_failures"}


def export(record: TaskRecord) -> str:
    """Return the record as Markdown, which `parse` takes."""
    done, total = record.finished
    values = task_form.dump(record)
    top: dict[str, Any] = {
        key: values[key] for key in ("format", "revision", "updated", "by") if key in values
    }
    lines = [f"{_TITLE}{record.goal}", "", f"## {STATUS}", "", f"{record.state}, {done} of {total} steps", ""]
    lines += [*_fields(top), *_fields(values.get("checkpoint", {}), prefix=_CHECKPOINT), ""]
    lines += _section(BLOCKED, _fields(values.get("blocked", {})))
    resume = {} if record.resume_revision is None else {"resume_revision": record.resume_revision}
    said = [f"- {record.resume_at}", *_fields(resume, "  ")] if record.resume_at else []
    lines += _section(RESUME, said)
    policy = dict(values.get("policy", {}))
    profiles = [f"- profile {name}: {command}" for name, command in policy.pop("profiles", {}).items()]
    lines += _section(POLICY, [*_fields(policy), *profiles])
    lines += _section(PLAN, _plan(values.get("phases", ())))
    for title, (name, first) in LISTS.items():
        lines += _section(title, _items(values.get(name, ()), first))
    return "\n".join(lines).rstrip() + "\n"


def parse(text: str, by: str | None = None, at: datetime | None = None) -> TaskRecord:
    """Return the record of a Markdown text.

    Args:
        text: what `export` gives, with what people wrote into it.
        by: who wrote the items that do not say so; without, such items are refused.
        at: when.

    Raises:
        InvalidArgument: a section is missing or occurs twice, a line is not understood, or a value is not
            valid.
    """
    if len(text) > LONGEST:
        raise _unreadable(f"it is longer than {LONGEST} characters")
    lines = _tidied(text.splitlines())
    goal, sections = _split(lines)
    values: dict[str, Any] = {"goal": goal, **_status(sections[STATUS])}
    signed = {"at": at.isoformat(), "by": by} if by is not None and at is not None else {}
    if blocked := _block(sections[BLOCKED], BLOCKED):
        values["blocked"] = {**signed, **blocked}
    if policy := _block(sections[POLICY], POLICY):
        values["policy"] = _nested(policy, _PROFILE, "profiles")
    if resume := _said(sections[RESUME]):
        (number, line), *rest = resume
        if not line.startswith("- ") or len(rest) > 1:
            raise _unreadable(f"'{RESUME}' must be one line that begins with '- '", number)
        values["resume_at"] = line[2:]
        if rest:
            values.update([_field(rest[0][1].strip(), rest[0][0])])
    values["phases"], numbers = _phases(_said(sections[PLAN]))
    if blocked and blocked.get("step") in numbers:
        values["blocked"]["step"] = numbers[blocked["step"]]
    for title, (name, first) in LISTS.items():
        items = _read_items(_said(sections[title]), first, texts=name == "notes")
        values[name] = [_completed(item, name, signed, numbers) for item in items]
    return task_form.load(values)


def _completed(
    item: dict[str, Any], name: str, signed: Mapping[str, str], numbers: Mapping[str, str]
) -> dict[str, Any]:
    """Return an item of a list with its omitted fields filled in, and the present number of its step."""
    if name not in _SIGNED:
        return item
    reason = {"why": _NO_REASON} if signed and name in ("decisions", "alternatives") else {}
    step = {"step": numbers.get(item["step"], item["step"])} if "step" in item else {}
    return {**signed, **reason, **item, **step}


def _tidied(lines: Sequence[str]) -> list[str]:
    """Return the lines as `export` writes them: no comments, bullets of one kind, no tabs before them."""
    kept: list[str] = []
    commented = False
    for line in lines:
        text = line.rstrip()
        if commented or text.lstrip().startswith("<!--"):
            commented = not text.endswith("-->")
            kept.append("")
            continue
        text = _BULLET.sub(r"\1- ", text, count=1) if _BULLET.match(text) else text
        body = text.lstrip(" \t")
        indent = text[: len(text) - len(body)].replace("\t", "    ")
        kept.append(indent + body)
    return kept


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return [f"## {title}", "", *(lines or [NOTHING]), ""]


def _fields(values: Mapping[str, Any], indent: str = "", prefix: str = "") -> list[str]:
    return [f"{indent}- {prefix}{key.replace('_', ' ')}: {_word(value)}" for key, value in values.items()]


def _word(value: Any) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def _plan(phases: Sequence[Mapping[str, Any]]) -> list[str]:
    lines: list[str] = []
    for major, phase in enumerate(phases, start=1):
        lines += [*([""] if lines else []), f"### {major}. {phase['title']}", ""]
        for minor, step in enumerate(phase.get("steps", ()), start=1):
            rest = {key: value for key, value in step.items() if key not in ("title", "attempts", "claim")}
            rest |= {f"{_CLAIM}{key}": value for key, value in step.get("claim", {}).items()}
            mark = "x" if rest.get("status") == "done" else " "
            if mark == "x":
                rest.pop("status")
            lines += [f"- [{mark}] {major}.{minor} {step['title']}", *_fields(rest, "  ")]
            lines += _items(step.get("attempts", ()), "entry", "  ", "attempt ")
    return lines


def _items(items: Sequence[Mapping[str, Any]], first: str, indent: str = "", prefix: str = "") -> list[str]:
    lines: list[str] = []
    for item in items:
        rest = {key: value for key, value in item.items() if key != first}
        lines += [f"{indent}- {prefix}{item[first]}", *_fields(rest, indent + "  ")]
    return lines


_Line = tuple[int, str]
"""The number of a line, and its text."""


def _split(lines: Sequence[str]) -> tuple[str, dict[str, list[_Line]]]:
    goal, name = "", ""
    sections: dict[str, list[_Line]] = {}
    for number, line in enumerate(lines, start=1):
        if line.startswith("## "):
            name = _section_name(line, number)
            if name in sections:
                raise _unreadable(f"section '{name}' occurs twice", number)
            sections[name] = []
        elif name:
            sections[name].append((number, line))
        elif line.startswith(_TITLE) and not goal:
            goal = line.removeprefix(_TITLE)
        elif line:
            raise _unreadable(f"'{plain(line, 60)}' is before the first section", number)
    if not goal:
        raise _unreadable(f"it lacks the line '{_TITLE}GOAL'")
    missing = [name for name in SECTIONS if name not in sections and name not in OPTIONAL]
    if missing:
        raise _unreadable(f"section '{missing[0]}' is missing")
    sections |= {name: [] for name in OPTIONAL if name not in sections}
    return goal, sections


def _section_name(line: str, number: int) -> str:
    name = line[3:].strip()
    if name not in SECTIONS:
        raise _unreadable(f"'{plain(name, 60)}' is not a section", number)
    return name


def _said(lines: Sequence[_Line]) -> list[_Line]:
    return [(number, line) for number, line in lines if line and line != NOTHING]


def _status(lines: Sequence[_Line]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    checkpoint: dict[str, Any] = {}
    for number, line in _said(lines):
        if not line.startswith("- "):
            continue  # the summary for people; it follows from the plan
        key, value = _field(line, number)
        if key.startswith("checkpoint_"):
            checkpoint[key.removeprefix("checkpoint_")] = value
        else:
            values[key] = value
    return values | ({"checkpoint": checkpoint} if checkpoint else {})


def _block(lines: Sequence[_Line], title: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for number, line in _said(lines):
        key, value = _field(line, number)
        if key in values:
            raise _unreadable(f"'{key}' occurs twice in '{title}'", number)
        values[key] = value
    return values


def _phases(lines: Sequence[_Line]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the phases, and the new numbers of renumbered steps."""
    phases: list[dict[str, Any]] = []
    numbers: dict[str, str] = {}
    for number, line in lines:
        if found := _PHASE.fullmatch(line):
            phases.append({"title": found[1], "steps": []})
            continue
        steps = phases[-1]["steps"] if phases else None
        if steps is None:
            raise _unreadable("it is before the first phase", number)
        if found := _STEP.fullmatch(line):
            done = {"status": "done"} if found[1] in "xX" else {}
            steps.append({"title": found[3], "attempts": [], **done})
            if found[2] is not None:
                numbers.setdefault(found[2], f"{len(phases)}.{len(steps)}")
        elif steps and (found := re.fullmatch(r"( {2,})- (.*)", line)):
            _put_below(steps[-1], len(found[1]), found[2], number)
        else:
            raise _unreadable(f"'{plain(line, 60)}' is not a phase, a step or a field", number)
    for phase in phases:
        phase["steps"] = [_nested(step, _CLAIM, "claim") for step in phase["steps"]]
    return phases, numbers


def _nested(values: dict[str, Any], prefix: str, name: str) -> dict[str, Any]:
    """Return values with those whose name has a prefix in a table of their own."""
    inner = {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}
    outer = {key: value for key, value in values.items() if not key.startswith(prefix)}
    return {**outer, name: inner} if inner else outer


def _put_below(step: dict[str, Any], indent: int, text: str, number: int) -> None:
    """Add a line below a step: an attempt, a field of one, or a field of the step.

    A person who ticks the box of a step under way leaves the status that was exported below it.
    """
    if text.startswith("attempt "):
        step["attempts"].append({"entry": text.removeprefix("attempt ")})
        return
    if indent > 3 and step["attempts"]:
        _put(step["attempts"][-1], f"- {text}", number)
    elif not (text.startswith("status: ") and step.get("status") == "done"):
        _put(step, f"- {text}", number)


def _read_items(lines: Sequence[_Line], first: str, *, texts: bool) -> list[dict[str, Any]]:
    """Return the items of a list; with `texts`, a line of text is one as well."""
    items: list[dict[str, Any]] = []
    for number, line in lines:
        if line.startswith("- "):
            items.append({first: line[2:]})
        elif items and re.match(r" {2,}- ", line):
            _put(items[-1], line.strip(), number)
        elif texts and not line.startswith((" ", "#")):
            items.append({first: line})
        else:
            raise _unreadable(f"'{plain(line, 60)}' is not an item or a field", number)
    return items


def _put(values: dict[str, Any], line: str, number: int) -> None:
    key, value = _field(line, number)
    if key in values:
        raise _unreadable(f"'{key}' occurs twice", number)
    values[key] = value


def _field(line: str, number: int) -> tuple[str, Any]:
    found = _FIELD.fullmatch(line)
    if found is None:
        raise _unreadable(f"'{plain(line, 60)}' is not a field", number)
    key, value = found[1].replace(" ", "_"), found[2]
    if key.startswith(_PROFILE):
        return key, value
    if key.removeprefix("checkpoint_") in _NUMBERS and re.fullmatch(r"-?\d{1,15}", value, re.ASCII):
        return key, int(value)
    if key == "verified" and value in ("yes", "no"):
        return key, value == "yes"
    return key, value


def _unreadable(reason: str, line: int | None = None) -> InvalidArgument:
    where = "" if line is None else f"line {line}: "
    return InvalidArgument(
        f"cannot import the task record: {where}{reason}",
        hint="nothing was changed; `holdfast task show` shows the form",
    )
