"""The actions in a session, each with its stated reason and its result.  Pure.

It reads the entries of a journal: commands, cells, jobs and programs, and the changes of the task between
them. It infers no reason: without a stated one it stays empty.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from holdfast.base.text import lines, plain
from holdfast.runtime.journal.event_text import format_event

if TYPE_CHECKING:
    from holdfast.runtime.store.entry import Entry

ActionKind = Literal["command", "cell", "job", "run", "files_in", "files_out", "missing"]
_BEGINS: dict[str, tuple[ActionKind, str, str]] = {
    "command_started": ("command", "command", "shell"),
    "cell_started": ("cell", "code", "kernel"),
    "job_started": ("job", "command", "name"),
    "run_started": ("run", "argv", "cwd"),
}
"""Entries that begin an action: its kind, and the fields with its text and its place."""
_ENDS = frozenset({"command_ended", "cell_ended", "job_ended", "run_ended"})
_LONE: tuple[ActionKind, ...] = ("files_in", "files_out", "missing")
"""Actions of one entry."""
_OVER = ("done", "skipped")
LONGEST = 64 << 10
"""Characters of an action's text; the session keeps as many bytes."""


@dataclass(frozen=True, slots=True)
class StatedAction:
    """An action, its stated reason, and its result.

    Attributes:
        entry: where it began in the journal, such as `#12`; `#12+` for what the host did after entry 12.
        at: when, in Unix seconds.
        actor: its actor.
        kind: `command`, `cell`, `job` or `run`; `files_in` and `files_out`, which the host copied into the
            session or out of it; `missing`, entries that are no longer kept.
        text: the command, the code, or what was copied.
        place: the shell, the kernel, the job's name, or the program's directory.
        cut: the text is not whole.
        key: the idempotency key it was sent with.
        typed: the number of inputs at the terminal while it ran.
        reason: the reason that was given with it.
        step: the step of the task that it was an attempt at, or that its actor, or else anyone, was at; or
            else the first that had not ended, with the words `the next one`.
        decision: the last decision that its actor had locked at that step, with its reason.
        note: the last note, question or risk of its actor at that step.
        result: the exit code, or the status of a cell; None if it had not ended.
        attempt: `passed`, `failed` or `unknown` if it is an attempt at its step.
        verified: it was the verification of its step.
        failure_type: the kind of its failure, and `failure_detail` the line that shows it.
        failure_detail: see `failure_type`.
        output_digest: of its output, to tell whether another run printed the same.
    """

    entry: str
    at: float
    actor: str
    kind: ActionKind
    text: str
    place: str = ""
    cut: bool = False
    key: str | None = None
    typed: int = 0
    reason: str = ""
    step: str = ""
    decision: str = ""
    note: str = ""
    result: int | str | None = None
    attempt: str = ""
    verified: bool = False
    failure_type: str = ""
    failure_detail: str = ""
    output_digest: str = ""

    @property
    def why(self) -> str:
        """The stated reasons in one line, the nearest first."""
        named = [f"step {self.step}" if self.step else "", self.decision, self.note]
        return "; ".join(part for part in (self.reason, *named) if part)

    @property
    def outcome(self) -> str:
        """The result in a few words."""
        if self.kind in _LONE:
            return ""
        if self.result is None:
            return "had not ended"
        ended = f"exit {self.result}" if isinstance(self.result, int) else self.result
        attempt = f"{'verification' if self.verified else 'attempt'} {self.attempt}" if self.attempt else ""
        return ", ".join(part for part in (ended, attempt, self.failure_type) if part)


@dataclass(slots=True)
class _Stand:
    """The statements of an actor so far."""

    step: str = ""
    decision: str = ""
    note: str = ""


@dataclass(slots=True)
class _ActionReading:
    after: int
    since: float
    actions: dict[str, StatedAction] = field(default_factory=dict)
    """By the id of the command or cell; by the entry for one without."""
    by_entry: dict[str, str] = field(default_factory=dict)
    running: dict[tuple[str, str], str] = field(default_factory=dict)
    stands: dict[str, _Stand] = field(default_factory=dict)
    anyone: str = ""
    """The step that was last named by anyone."""
    coming: str = ""
    """The first step that had not ended then."""


def stated_actions(entries: Iterable[Entry], after: int = 0, since: float = 0.0) -> list[StatedAction]:
    """Return the actions that began after an entry, the oldest first.

    Args:
        entries: a session's line of entries, in order, from its beginning: statements before `after` still
            hold after it.
        after: the number of the last entry of the session before the actions.
        since: the time of that instant in Unix seconds, for actions of the host.
    """
    reading = _ActionReading(after, since)
    for entry in entries:
        if entry.kind == "task_changed" and entry.host:
            _stated(reading, entry)
        elif entry.kind == "files" and entry.host:
            out = entry.details.get("what") == "copied out"
            _begun(reading, entry, "files_out" if out else "files_in", _said(entry), "")
        elif entry.kind == "dropped":
            _begun(reading, entry, "missing", _said(entry), "")
        elif entry.kind in _BEGINS and not entry.host:
            kind, text, place = _BEGINS[entry.kind]
            _begun(reading, entry, kind, entry.details.get(text), _text(entry.details.get(place)))
        elif entry.kind in _ENDS and not entry.host:
            _ended(reading, entry.details)
        elif entry.kind == "input" and not entry.host:
            _typed(reading, entry.details)
    return list(reading.actions.values())


def output_digest(kind: str, details: Mapping[str, Any]) -> str:
    """Return the digest of the output that an entry of an end has; empty if it has none.

    A cell's is made here of its outputs, without its number in the kernel, which differs between runs.
    """
    if kind != "cell_ended":
        return _text(details.get("output_digest"), 80)
    outputs = details.get("outputs")
    if not isinstance(outputs, list) or details.get("outputs_cut"):
        return ""
    numbered = ("execution_count", "traceback")
    same = [
        {key: each[key] for key in each if key not in numbered} if isinstance(each, dict) else each
        for each in outputs
    ]
    try:
        return hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()[:8]
    except RecursionError:
        return ""


def _begun(reading: _ActionReading, entry: Entry, kind: ActionKind, text: object, place: str) -> None:
    if entry.at <= reading.since if entry.host else entry.seq <= reading.after:
        return
    details = entry.details
    number = f"#{entry.seq}{'+' if entry.host else ''}"
    alone = kind in _LONE
    ident = f"{number} {len(reading.actions)}" if alone else str(details.get("id"))
    actor = plain(entry.actor or "", 80)
    stand = reading.stands.get(actor, _Stand())
    whole = text if isinstance(text, str) else ""
    shown = lines(whole[:LONGEST])
    key = details.get("key")
    reading.actions[ident] = StatedAction(
        entry=number,
        at=entry.at,
        actor=actor,
        kind=kind,
        text=shown,
        place=place,
        cut=shown != text or bool({"cut", "command_bytes"} & set(details)),
        key=plain(key, 200) if isinstance(key, str) else None,
        reason=_text(details.get("reason")),
        step=stand.step or reading.anyone or reading.coming,
        decision=stand.decision,
        note=stand.note,
    )
    reading.by_entry[number] = ident
    if not alone:
        reading.running[_where(details)] = ident


def _ended(reading: _ActionReading, details: Mapping[str, Any]) -> None:
    ident = str(details.get("id"))
    reading.running = {where: each for where, each in reading.running.items() if each != ident}
    found = reading.actions.get(ident)
    if found is None:
        return
    code = details.get("status", details.get("exit_code"))
    result = plain(code, 40) if isinstance(code, str) else code if isinstance(code, int) else None
    if result is None and isinstance(details.get("signal"), int):
        result = 128 + int(details["signal"])
    digest = output_digest(f"{found.kind}_ended", details)
    reading.actions[ident] = replace(found, result=result, output_digest=digest)


def _typed(reading: _ActionReading, details: Mapping[str, Any]) -> None:
    ident = reading.running.get(_where(details), "")
    if (found := reading.actions.get(ident)) is not None:
        reading.actions[ident] = replace(found, typed=found.typed + 1)


def _stated(reading: _ActionReading, entry: Entry) -> None:
    """Apply the statements in a change of the task: to the actor from now on, or to an attempt's command."""
    facts, actor = entry.details, plain(entry.actor or "", 80)
    stand = reading.stands.setdefault(actor, _Stand())
    if decision := _text(facts.get("decision")):
        stand.decision = f"{decision} ({_text(facts.get('why'))})"
    if note := _text(facts.get("note")):
        stand.note = note
    if "next_step" in facts or "step" in facts:
        coming = _text(facts.get("next_step"))
        reading.coming = f"{coming} (the next one)" if coming else ""
    number = _text(facts.get("step"), 20)
    if not number:
        return
    step = f"{number} {_text(facts.get('step_title'))}".rstrip()
    ident = reading.by_entry.get(_text(facts.get("entry"), 20), "")
    if (found := reading.actions.get(ident)) is not None and (outcome := _text(facts.get("outcome"), 20)):
        reading.actions[ident] = replace(
            found,
            step=step,
            attempt=outcome,
            verified=facts.get("verified") is True,
            failure_type=_text(facts.get("failure_type"), 80),
            failure_detail=_text(facts.get("failure_detail")),
        )
    if facts.get("step_status") in _OVER:
        reading.anyone = "" if reading.anyone == step else reading.anyone
        for name, each in reading.stands.items():
            if each.step == step:
                reading.stands[name] = _Stand()
    else:
        reading.anyone = step
        if stand.step != step:
            reading.stands[actor] = _Stand(step)


def _where(details: Mapping[str, Any]) -> tuple[str, str]:
    kind = next((name for name in ("shell", "kernel") if details.get(name)), "")
    return kind, str(details.get(kind, ""))


def _said(entry: Entry) -> str:
    return format_event(entry.kind, entry.details)


def _text(value: object, limit: int = 1000) -> str:
    return plain(value, limit) if isinstance(value, str) else ""
