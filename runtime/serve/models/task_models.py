"""Bodies of changes of a session's task."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from holdfast.runtime.api.session_task import SessionTask
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.serve.models.base_models import TEXT, Name, Patient, RequestBody, Seconds, taking
from holdfast.runtime.task.task_record import MOST_PROFILES, ProfileName

Line = Annotated[str, Field(max_length=4000, pattern=TEXT)]
"""A text; an empty one removes it."""
Words = Annotated[str, Field(min_length=1, max_length=4000, pattern=TEXT)]
Whole = Annotated[str, Field(max_length=256 << 10, pattern=TEXT)]
"""A plan, or a record as Markdown or JSON."""
StepNumber = Annotated[str, Field(pattern=r"^[0-9]{1,3}\.[0-9]{1,3}$")]
ActionNumber = Annotated[str, Field(pattern=r"^#[0-9]{1,16}\+?$")]
EntryNumber = Annotated[str, Field(pattern=r"^#[1-9][0-9]{0,15}$")]


@taking(SessionTask.set, text=Line)
class TaskSetRequest(RequestBody):
    """The goal, which begins a task, the resume point, and the rules for every successor."""

    goal: Words | None = None
    retry_limit: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    profiles: Annotated[dict[ProfileName, Line], Field(max_length=MOST_PROFILES)] | None = None


class TaskTextRequest(RequestBody):
    """A plan."""

    text: Whole


class TaskImportRequest(RequestBody):
    """A record, as Markdown or JSON; `replace` accepts one that lacks entries recorded since its export."""

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
    """A step to be claimed; `take` takes it over from someone else."""

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
    """The reason why the work is no longer blocked."""

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
    """Marks an item as settled; `number` counts from 1 within its list."""

    kind: Literal["decision", "alternative", "question", "risk", "file", "artifact", "note"]
    number: Annotated[int, Field(ge=1, le=1000)]


class BlockRequest(RequestBody):
    """The cause that blocks the work, and the thing that would unblock it."""

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


@taking(Snapshot.redo, text=Name)
class RedoRequest(RequestBody):
    """The actions to repeat, as `Snapshot.redo` takes them; `timeout` in seconds for each action."""

    rung: Literal["live", "files"] | None = None
    skip: Annotated[list[ActionNumber], Field(default_factory=list, max_length=1000)]
    repeat: Annotated[list[Line], Field(default_factory=list, max_length=1000)]
