"""The work done on tasks in a span of time, its actors and its verification; over all sessions. Pure.

It reads the changes of tasks that journals have, which outlive their sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.base.text import plain

if TYPE_CHECKING:
    from holdfast.runtime.store.entry import Entry

_LONGEST = 300


@dataclass(frozen=True, slots=True)
class ReportedStep:
    """A step that was worked on: done or skipped, by whom, and how that was verified.

    `at` is in Unix seconds. `evidence` is the entry of the verification that passed, `profile` its name if
    it has one. `failed` counts the failed attempts until then, `failure` is the kind of the last.
    """

    number: str
    title: str
    status: str
    at: float
    by: str
    evidence: str = ""
    profile: str = ""
    back_end: str = ""
    failed: int = 0
    failure: str = ""

    @property
    def text(self) -> str:
        """The step in one line."""
        said = f"{self.number} {self.title}: {self.status} by {self.by}"
        if self.status == "done":
            name = f" ({self.profile})" if self.profile else ""
            said += f", verified by {self.evidence}{name}" if self.evidence else ", as it says"
        if self.failed:
            said += f", {self.failed} attempts failed, last {self.failure or 'unknown'}"
        return said


@dataclass(frozen=True, slots=True)
class SessionWork:
    """The work done in one session. `state` is the session's present state: `removed` if the session was
    removed."""

    session: str
    session_id: str
    state: str
    goal: str
    steps: tuple[ReportedStep, ...]
    decisions: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield the lines for people and agents."""
        yield f"{self.session} [{self.state}]" + (f": {self.goal}" if self.goal else "")
        for step in self.steps:
            yield f"  {datetime.fromtimestamp(step.at, UTC):%m-%d %H:%M}  {step.text}"
        yield from (f"  decided: {each}" for each in self.decisions)
        yield from (f"  not taken: {each}" for each in self.alternatives)
        yield from (f"  {each}" for each in self.blocks)
        if self.checkpoints:
            yield f"  checkpoints: {', '.join(self.checkpoints)}"


@dataclass(frozen=True, slots=True)
class WorkReport:
    """The work done since a time (Unix seconds), session by session, the earliest first."""

    since: float
    sessions: tuple[SessionWork, ...]

    def text(self) -> str:
        """Return the report for people and agents, in UTC."""
        done = [step for each in self.sessions for step in each.steps if step.status == "done"]
        verified = sum(bool(step.evidence) for step in done)
        begin = f"{datetime.fromtimestamp(self.since, UTC):%Y-%m-%d %H:%M} UTC"
        head = f"since {begin}: {len(done)} steps done in {len(self.sessions)} sessions, {verified} verified"
        return "\n".join([head, *(line for each in self.sessions for line in each.lines())])

    def as_dict(self) -> dict[str, Any]:
        """Return all fields for programs."""
        return asdict(self)


@dataclass(slots=True)
class _WorkReading:
    steps: dict[str, ReportedStep] = field(default_factory=dict)
    decisions: list[str] = field(default_factory=list)
    alternatives: list[str] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)
    checkpoints: list[str] = field(default_factory=list)


def session_work(
    entries: Iterable[Entry], session: str, session_id: str, state: str, goal: str
) -> SessionWork | None:
    """Return the steps that changes of a session's task report as done; None if there are none.

    Args:
        entries: those of kind `task_changed`, in order.
        session: its name.
        session_id: its id.
        state: its state now.
        goal: of its task.
    """
    reading = _WorkReading()
    for entry in entries:
        if entry.host:  # what a session writes into its own journal is no change of its task
            _read(reading, entry)
    found = SessionWork(
        session,
        session_id,
        state,
        plain(goal, _LONGEST),
        tuple(sorted(reading.steps.values(), key=lambda step: step.at)),
        tuple(reading.decisions),
        tuple(reading.alternatives),
        tuple(reading.blocks),
        tuple(reading.checkpoints),
    )
    said = found.steps or found.decisions or found.alternatives or found.blocks or found.checkpoints
    return found if said else None


def _read(reading: _WorkReading, entry: Entry) -> None:
    facts = entry.details
    reason = f" ({_text(facts, 'why')})" if _text(facts, "why") else ""
    for name, items in (("decision", reading.decisions), ("alternative", reading.alternatives)):
        if said := _text(facts, name):
            items.append(f"{said}{reason}")
    if said := _text(facts, "blocked"):
        reading.blocks.append(f"blocked: {said}; needs {_text(facts, 'needs')}")
    if said := _text(facts, "unblocked"):
        how = _text(facts, "how")
        reading.blocks.append(f"unblocked: {said}" + (f"; {how}" if how else ""))
    if said := _text(facts, "checkpoint"):
        reading.checkpoints.append(said)
    if _text(facts, "step"):
        _read_step(reading, entry)


def _read_step(reading: _WorkReading, entry: Entry) -> None:
    facts, by = entry.details, plain(entry.actor or "", 80)
    title, number, status = (_text(facts, name) for name in ("step_title", "step", "step_status"))
    now: dict[str, Any] = {
        "number": number,
        "status": status,
        "at": entry.at,
        "by": by,
        "evidence": _text(facts, "evidence"),
    }
    if outcome := _text(facts, "outcome"):
        now |= {"profile": _text(facts, "profile"), "back_end": _text(facts, "back_end")}
    step = replace(reading.steps.get(title) or ReportedStep(number, title, status, entry.at, by), **now)
    if outcome == "failed":
        step = replace(step, failed=step.failed + 1, failure=_text(facts, "failure_type"))
    reading.steps[title] = step


def _text(facts: Mapping[str, Any], name: str) -> str:
    value = facts.get(name)
    return plain(value, _LONGEST) if isinstance(value, str) else ""
