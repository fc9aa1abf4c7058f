"""The task record: the facts a successor needs to continue the work in a session. Pure.

Owns the fields and their bounds. It holds no output and no transcript: commands are references to the
journal. It knows neither how it is stored nor the rights to change it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

FORMAT = 1
LONGEST_TEXT = 1000
"""Characters of one text. A record has decisions and reasons, not pages."""
MOST_ITEMS = 100
"""Items of each list."""
MOST_ATTEMPTS = 8
"""Attempts that a step keeps; earlier ones are counted, and the journal has them."""
_UNFIT = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
"""Unicode categories that no terminal shows as they are; see `base.text`."""


def one_line(text: str) -> str:
    """Return a text as one line without space around it.

    Raises:
        ValueError: it is empty or too long, or has control characters.
    """
    line = " ".join(text.split())
    if not line:
        raise ValueError("it is empty")
    if len(line) > LONGEST_TEXT:
        raise ValueError(f"it has {len(line)} characters; at most {LONGEST_TEXT} are allowed")
    if any(unicodedata.category(char) in _UNFIT for char in line):
        raise ValueError("it has control characters")
    return line


def _whole_second(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(microsecond=0)


Text = Annotated[str, AfterValidator(one_line)]
Moment = Annotated[AwareDatetime, AfterValidator(_whole_second)]
"""In UTC, in whole seconds."""
EntryReference = Annotated[str, StringConstraints(pattern=r"^#[1-9][0-9]{0,15}$")]
"""An entry of the session's journal."""
Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
MOST_PROFILES = 20
ProfileName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]
"""Of a named verification."""
ExitCode = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Count = Annotated[int, Field(ge=0, lt=2**31)]
StepStatus = Literal["open", "active", "blocked", "done", "skipped"]
Outcome = Literal["passed", "failed", "unknown"]


class _RecordPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StepAttempt(_RecordPart):
    """One attempt at a step: its command in the journal, and how it failed if it did.

    `verified`: the step's own verification command was run; `profile` is its name, if it has one.
    `back_end` is the one chosen then. The failure's fields are `classify_failure.FailureClass`'s.
    """

    entry: EntryReference
    outcome: Outcome
    at: Moment
    by: Text
    exit_code: ExitCode | None = None
    verified: bool = False
    profile: Text | None = None
    back_end: Text | None = None
    failure_type: Text | None = None
    failure_detail: Text | None = None
    suggested_focus: Text | None = None


class StepClaim(_RecordPart):
    """The claim of a step: its owner and start. Other actors leave the step alone."""

    by: Text
    at: Moment


class TaskStep(_RecordPart):
    """One step. With `verify`, a command, it is done only when that has passed: `evidence` is its entry.

    `verify` can also name a profile of the policy, as `@quick`. `back_end` is the step's own.
    """

    title: Text
    status: StepStatus = "open"
    verify: Text | None = None
    back_end: Text | None = None
    claim: StepClaim | None = None
    evidence: EntryReference | None = None
    earlier_attempts: Count = 0
    earlier_failures: Count = 0
    attempts: Annotated[tuple[StepAttempt, ...], Field(max_length=MOST_ATTEMPTS)] = ()

    @property
    def tries(self) -> int:
        """The number of attempts, those no longer kept included."""
        return self.earlier_attempts + len(self.attempts)

    @property
    def failures(self) -> int:
        """The number of attempts that failed, those no longer kept included."""
        return self.earlier_failures + sum(each.outcome == "failed" for each in self.attempts)


class TaskPhase(_RecordPart):
    """Steps that belong together."""

    title: Text
    steps: Annotated[tuple[TaskStep, ...], Field(max_length=MOST_ITEMS)] = ()


class Decision(_RecordPart):
    """A final decision, and the reason."""

    text: Text
    why: Text
    at: Moment
    by: Text


class TaskNote(_RecordPart):
    """An open question, a risk, or a remark. A question with a `step` blocks that step."""

    text: Text
    at: Moment
    by: Text
    step: Text | None = None


class FileToReread(_RecordPart):
    """A file or module to read again before continuing."""

    path: Text
    why: Text | None = None


class TaskArtifact(_RecordPart):
    """A file produced by the work: its place, its content, and the entry that made it.

    `bytes` is its size, `snapshot` the first checkpoint that has it.
    """

    name: Text
    path: Text
    digest: Digest | None = None
    bytes: Count | None = None
    entry: EntryReference | None = None
    snapshot: Text | None = None


class TaskPolicy(_RecordPart):
    """The policy for every successor: retries of a step, the verifying command, the back end.

    `artifacts` are patterns of files that are artifacts, separated by blanks. `profiles` are named
    verifications. `checkpoint` is the rule for automatic checkpoints: `step`, after each step that is done,
    and a time such as `30m`, if the last one is older.
    """

    retry_limit: Count | None = None
    verify: Text | None = None
    back_end: Text | None = None
    artifacts: Text | None = None
    checkpoint: Text | None = None
    profiles: Annotated[dict[ProfileName, Text], Field(max_length=MOST_PROFILES)] = {}


class TaskBlock(_RecordPart):
    """The blocker of the work, its remedy, and the attempts so far."""

    why: Text
    needs: Text
    at: Moment
    by: Text
    step: Text | None = None
    entry: EntryReference | None = None
    tried: Text | None = None


class TaskCheckpoint(_RecordPart):
    """The last snapshot that was taken together with the record."""

    snapshot: Text
    at: Moment
    by: Text
    entry: EntryReference | None = None


class TaskRecord(_RecordPart):
    """The record of the work in one session.

    `revision` counts its changes; `resume_revision` is the revision at which `resume_at` was written.
    `alternatives` are paths that were not taken, and why.
    """

    format: Literal[1] = 1
    revision: Count = 0
    updated: Moment
    by: Text
    goal: Text
    resume_at: Text | None = None
    resume_revision: Count | None = None
    blocked: TaskBlock | None = None
    checkpoint: TaskCheckpoint | None = None
    policy: TaskPolicy = TaskPolicy()
    phases: Annotated[tuple[TaskPhase, ...], Field(max_length=MOST_ITEMS)] = ()
    decisions: Annotated[tuple[Decision, ...], Field(max_length=MOST_ITEMS)] = ()
    alternatives: Annotated[tuple[Decision, ...], Field(max_length=MOST_ITEMS)] = ()
    questions: Annotated[tuple[TaskNote, ...], Field(max_length=MOST_ITEMS)] = ()
    risks: Annotated[tuple[TaskNote, ...], Field(max_length=MOST_ITEMS)] = ()
    files: Annotated[tuple[FileToReread, ...], Field(max_length=MOST_ITEMS)] = ()
    artifacts: Annotated[tuple[TaskArtifact, ...], Field(max_length=MOST_ITEMS)] = ()
    notes: Annotated[tuple[TaskNote, ...], Field(max_length=MOST_ITEMS)] = ()

    def steps(self) -> Iterator[tuple[str, TaskStep]]:
        """Yield the steps with their numbers: `2.1` is the first of the second phase."""
        for major, phase in enumerate(self.phases, start=1):
            for minor, step in enumerate(phase.steps, start=1):
                yield f"{major}.{minor}", step

    @property
    def finished(self) -> tuple[int, int]:
        """The number of steps done or skipped, and the total."""
        states = [step.status for _, step in self.steps()]
        return sum(status in ("done", "skipped") for status in states), len(states)

    @property
    def state(self) -> Literal["planned", "active", "blocked", "done"]:
        """The state of the work as a whole."""
        if self.blocked is not None:
            return "blocked"
        ended, total = self.finished
        if total and ended == total:
            return "done"
        begun = any(step.status != "open" or step.tries for _, step in self.steps())
        return "active" if begun else "planned"
