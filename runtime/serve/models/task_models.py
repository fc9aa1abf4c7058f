"""Bodies of changes of a session's task."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from holdfast.runtime.serve.models.base_models import TEXT, AnswerBody, Name, Patient, RequestBody, Seconds
from holdfast.runtime.task.task_record import MOST_PROFILES, ProfileName

Line = Annotated[str, Field(max_length=4000, pattern=TEXT)]
"""A text that may be empty: then there is none any more."""
Words = Annotated[str, Field(min_length=1, max_length=4000, pattern=TEXT)]
Whole = Annotated[str, Field(max_length=256 << 10, pattern=TEXT)]
"""A plan, or a record as Markdown or JSON."""
StepNumber = Annotated[str, Field(pattern=r"^[0-9]{1,3}\.[0-9]{1,3}$")]
ActionNumber = Annotated[str, Field(pattern=r"^#[0-9]{1,16}\+?$")]
EntryNumber = Annotated[str, Field(pattern=r"^#[1-9][0-9]{0,15}$")]


class TaskSetRequest(RequestBody):
    """The goal, which begins a task, the resume point, and what must hold for every successor."""

    goal: Words | None = None
    resume_at: Line | None = None
    retry_limit: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    verify: Line | None = None
    back_end: Line | None = None
    artifacts: Line | None = None
    profiles: Annotated[dict[ProfileName, Line], Field(max_length=MOST_PROFILES)] | None = None
    checkpoint: Line | None = None


class TaskTextRequest(RequestBody):
    """A plan."""

    text: Whole


class TaskImportRequest(RequestBody):
    """A record, as Markdown or JSON; `replace` takes one that lacks what was recorded since its export."""

    text: Whole
    replace: bool = False


class StepRequest(RequestBody):
    """A change of a step."""

    number: StepNumber
    status: Literal["open", "active", "blocked", "skipped"] | None = None
    title: Words | None = None
    verify: Line | None = None
    back_end: Line | None = None


class ClaimRequest(RequestBody):
    """A step to be claimed; `take` takes it over from another."""

    number: StepNumber
    take: bool = False


class ReleaseRequest(RequestBody):
    """A step whose claim is given up."""

    number: StepNumber


class StepDoneRequest(RequestBody):
    """A step whose verification is to be run; `timeout` in seconds.

    `junit` is the path of a test report that it must write.
    """

    number: StepNumber
    timeout: Seconds = 3600.0
    junit: Line | None = None
    busy_wait: Patient | None = None


class AttemptRequest(RequestBody):
    """A command that was an attempt at a step, by the journal entry at which it started."""

    number: StepNumber
    entry: EntryNumber


class DecisionRequest(RequestBody):
    """A decision and its reason."""

    text: Words
    why: Words


class TaskNoteRequest(RequestBody):
    """A remark, an open question, or a risk; a question about a step blocks it."""

    text: Words
    kind: Literal["note", "question", "risk"] = "note"
    step: StepNumber | None = None


class QuestionAnswerRequest(RequestBody):
    """The answer to an open question, by its number in the list, from 1."""

    number: Annotated[int, Field(ge=1, le=1000)]
    text: Words


class UnblockRequest(RequestBody):
    """How it came that nothing blocks the work any more."""

    how: Words | None = None


class ReadAgainRequest(RequestBody):
    """A file to read before continuing."""

    path: Words
    why: Words | None = None


class ArtifactRequest(RequestBody):
    """A file that the work has produced."""

    name: Words
    path: Words
    entry: EntryNumber | None = None


class DropRequest(RequestBody):
    """An item that is settled, by its number in its list, from 1."""

    kind: Literal["decision", "alternative", "question", "risk", "file", "artifact", "note"]
    number: Annotated[int, Field(ge=1, le=1000)]


class BlockRequest(RequestBody):
    """What blocks the work, and what would unblock it."""

    why: Words
    needs: Words
    step: StepNumber | None = None
    entry: EntryNumber | None = None
    tried: Words | None = None
    suspend: bool = False


class CheckpointRequest(RequestBody):
    """A snapshot to take together with the record."""

    label: Name | None = None
    resume_at: Line | None = None
    kind: Literal["live", "filesystem"] = "live"


class TaskVerdictAnswer(AnswerBody):
    """What came out of a verification or an attempt, and the record after it."""

    record: dict[str, Any]
    done: bool
    entry: str | None
    failure: dict[str, str] | None
    output: str
    checkpoint: str | None


class RepositoryAnswer(AnswerBody):
    """Where a Git repository stands; `dirty` counts files that differ from its index."""

    path: str
    branch: str | None
    commit: str | None
    dirty: int | None


class RepositoryChangeAnswer(AnswerBody):
    """A Git repository that does not stand where it stood at the checkpoint; null where there was none."""

    path: str
    before: RepositoryAnswer | None
    now: RepositoryAnswer | None


class TaskResumedAnswer(AnswerBody):
    """A task that can be continued; `session`: running, resumed or rewound. `drift` is null if not known.

    `running` and `ran` are commands that run, and that ended without being recorded at a step; `undone` is
    what going back has taken from the record.
    """

    session: str
    record: dict[str, Any]
    drift: dict[str, Any] | None
    git: list[RepositoryChangeAnswer]
    running: list[str]
    ran: list[str]
    undone: list[str]


class StatedActionAnswer(AnswerBody):
    """An action that led to a snapshot, its stated reasons, and its result."""

    entry: str
    at: float
    actor: str
    kind: Literal["command", "cell", "job", "run", "files_in", "files_out", "missing"]
    text: str
    place: str
    cut: bool
    key: str | None
    typed: int
    reason: str
    step: str
    decision: str
    note: str
    result: int | str | None
    attempt: str
    verified: bool
    failure_type: str
    failure_detail: str
    output_digest: str


class RedoRequest(RequestBody):
    """What is to be repeated, as `Snapshot.redo` takes it; `timeout` in seconds for each action."""

    name: Name | None = None
    since: Name | None = None
    rung: Literal["live", "files"] | None = None
    skip: Annotated[list[ActionNumber], Field(default_factory=list, max_length=1000)]
    repeat: Annotated[list[Line], Field(default_factory=list, max_length=1000)]
    exit_codes: bool = False
    timeout: Seconds = 600.0


class RedoneActionAnswer(AnswerBody):
    """An action, and what became of it."""

    action: StatedActionAnswer
    fate: Literal["same", "skipped", "differs", "stopped"]
    why: str
    result: int | str | None
    output_digest: str


class RedoAnswer(AnswerBody):
    """What was repeated, in which session; `left`: how many actions were not reached."""

    session: str
    session_id: str
    base: str
    rung: Literal["live", "files", "fresh"]
    actions: list[RedoneActionAnswer]
    left: int
    complete: bool


class TaskTextAnswer(AnswerBody):
    """A handoff, or a record as Markdown."""

    text: str


class CollectedAnswer(AnswerBody):
    """The names of artifacts that were registered by rule."""

    registered: list[str]
