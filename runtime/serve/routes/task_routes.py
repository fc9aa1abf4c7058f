"""Paths of a session's task: its record, changes, the verification of steps, checkpoints; and the board."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from fastapi import Query
from starlette.responses import StreamingResponse

from holdfast.base.value_classes import as_table
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_task import TaskVerdict
from holdfast.runtime.artifacts.kept_artifact import KeptArtifact
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.serve.answer_forms import ERRORS
from holdfast.runtime.serve.callers import ApiCaller, From
from holdfast.runtime.serve.models import task_models as models
from holdfast.runtime.serve.models.answer_models import (
    CollectedAnswer,
    RepositoryChangeAnswer,
    SnapshotAnswer,
    TaskResumedAnswer,
    TaskTextAnswer,
    TaskVerdictAnswer,
)
from holdfast.runtime.serve.models.base_models import TEXT, Ref
from holdfast.runtime.serve.routes.api_router import api_router
from holdfast.runtime.serve.routes.insight_routes import Time
from holdfast.runtime.serve.routes.snapshot_routes import answered
from holdfast.runtime.task import task_form
from holdfast.runtime.task.task_record import TaskRecord

router = api_router(prefix="/v1", tags=["task"], responses=ERRORS)
PREFIX = "/sessions/{session}/task"
Budget = Annotated[int, Query(ge=1, lt=2**31, description="The most tokens.")]


@router.get("/board")
async def board(who: From) -> list[dict[str, Any]]:
    """Return the progress of all sessions' tasks; sessions without a task are left out."""
    return await who.brief(lambda hf: [each.as_dict() for each in hf.board()])


@router.get("/report")
async def report(who: From, since: Time) -> dict[str, Any]:
    """Return the work done on tasks since a time: in all sessions, including removed ones."""
    return await who.brief(lambda hf: hf.report(since).as_dict())


@router.get(PREFIX)
async def record(who: From, session: Ref) -> dict[str, Any] | None:
    """Return the record of a session's task; null if it has none."""

    def work(found: Session) -> dict[str, Any] | None:
        known = found.task.record()
        return None if known is None else task_form.dump(known)

    return await who.in_session(session, work)


@router.get(f"{PREFIX}/markdown")
async def markdown(who: From, session: Ref) -> TaskTextAnswer:
    """Return the record as Markdown with fixed sections, which `import` takes."""
    return await who.in_session(session, lambda found: TaskTextAnswer(text=found.task.export()))


@router.get(f"{PREFIX}/handoff")
async def handoff(who: From, session: Ref, budget: Budget = 1500) -> TaskTextAnswer:
    """Return a successor's handoff, in at most this many tokens."""
    return await who.in_session(session, lambda found: TaskTextAnswer(text=found.task.handoff(budget)))


@router.post(f"{PREFIX}/set")
async def set_(who: From, session: Ref, body: models.TaskSetRequest) -> dict[str, Any]:
    """Set the goal, which begins a task, the resume point, or the policy; an empty text removes a value."""
    return await _changed(who, session, lambda found: found.task.set(**body.model_dump()))


@router.post(f"{PREFIX}/plan")
async def plan(who: From, session: Ref, body: models.TaskTextRequest) -> dict[str, Any]:
    """Replace the plan: a line for each phase, then `- STEP` or `- STEP :: COMMAND` for each step."""
    return await _changed(who, session, lambda found: found.task.plan(body.text))


@router.post(f"{PREFIX}/import")
async def import_(who: From, session: Ref, body: models.TaskImportRequest) -> dict[str, Any]:
    """Replace the present record by one from Markdown or JSON."""
    return await _changed(who, session, lambda found: found.task.import_(body.text, replace=body.replace))


@router.post(f"{PREFIX}/step")
async def step(who: From, session: Ref, body: models.StepRequest) -> dict[str, Any]:
    """Change a step."""
    return await _changed(who, session, lambda found: found.task.step(**body.model_dump()))


@router.post(f"{PREFIX}/claim")
async def claim(who: From, session: Ref, body: models.ClaimRequest) -> dict[str, Any]:
    """Claim a step: others are refused to finish it, or to claim it, until it is done or released."""
    return await _changed(who, session, lambda found: found.task.claim(body.number, take=body.take))


@router.post(f"{PREFIX}/release")
async def release(who: From, session: Ref, body: models.ReleaseRequest) -> dict[str, Any]:
    """Give up the claim of a step."""
    return await _changed(who, session, lambda found: found.task.release(body.number))


@router.post(f"{PREFIX}/decide")
async def decide(who: From, session: Ref, body: models.DecisionRequest) -> dict[str, Any]:
    """Lock a decision."""
    return await _changed(who, session, lambda found: found.task.decide(body.text, body.why))


@router.post(f"{PREFIX}/alternative")
async def alternative(who: From, session: Ref, body: models.DecisionRequest) -> dict[str, Any]:
    """Record a rejected path, and the reason."""
    return await _changed(who, session, lambda found: found.task.alternative(body.text, body.why))


@router.post(f"{PREFIX}/answer")
async def answer(who: From, session: Ref, body: models.QuestionAnswerRequest) -> dict[str, Any]:
    """Answer an open question; the answer is a locked decision from then on."""
    return await _changed(who, session, lambda found: found.task.answer(body.number, body.text))


@router.post(f"{PREFIX}/note")
async def note(who: From, session: Ref, body: models.TaskNoteRequest) -> dict[str, Any]:
    """Add a remark, an open question, or a risk."""
    return await _changed(who, session, lambda found: found.task.note(body.text, body.kind, step=body.step))


@router.post(f"{PREFIX}/read-again")
async def read_again(who: From, session: Ref, body: models.ReadAgainRequest) -> dict[str, Any]:
    """Add a file that a successor should read before continuing."""
    return await _changed(who, session, lambda found: found.task.read_again(body.path, body.why))


@router.post(f"{PREFIX}/artifact")
async def artifact(who: From, session: Ref, body: models.ArtifactRequest) -> dict[str, Any]:
    """Register a file that the work has produced, and keep it beyond the session's life."""
    return await _changed(who, session, lambda found: found.task.artifact(**body.model_dump()))


@router.post(f"{PREFIX}/artifacts")
async def collect_artifacts(who: From, session: Ref) -> CollectedAnswer:
    """Register the files that the policy's patterns match."""

    def work(found: Session) -> CollectedAnswer:
        return CollectedAnswer(registered=found.task.collect_artifacts())

    return await who.in_session(session, work)


@router.get(f"{PREFIX}/orphans")
async def orphans(who: From, session: Ref) -> list[dict[str, Any]]:
    """Return generated files that nothing accounts for."""
    return await who.in_session(session, lambda found: [each.as_dict() for each in found.task.orphans()])


@router.post(f"{PREFIX}/drop")
async def drop(who: From, session: Ref, body: models.DropRequest) -> dict[str, Any]:
    """Remove a settled item."""
    return await _changed(who, session, lambda found: found.task.drop(body.kind, body.number))


@router.post(f"{PREFIX}/block")
async def block(who: From, session: Ref, body: models.BlockRequest) -> dict[str, Any]:
    """Record the blocker of the work; with `suspend` the session is suspended live."""
    return await _changed(who, session, lambda found: found.task.block(**body.model_dump()))


@router.post(f"{PREFIX}/unblock")
async def unblock(who: From, session: Ref, body: models.UnblockRequest | None = None) -> dict[str, Any]:
    """Record that the work is no longer blocked, and how; resume the session if it is suspended."""
    how = None if body is None else body.how
    return await _changed(who, session, lambda found: found.task.unblock(how))


@router.post(f"{PREFIX}/done")
async def done(who: From, session: Ref, body: models.StepDoneRequest) -> TaskVerdictAnswer:
    """Mark a step as done, after its verification has passed in the session.

    If the client leaves, the verification continues, and nothing is recorded.
    """

    def work(found: Session, patience: Patience) -> TaskVerdictAnswer:
        verdict = found.task.done(**body.model_dump(), patience=patience)
        return _verdict(verdict)

    return await who.patiently(session, None, work)


@router.post(f"{PREFIX}/attempt")
async def attempt(who: From, session: Ref, body: models.AttemptRequest) -> TaskVerdictAnswer:
    """Record a command that was run as an attempt at a step, with the kind of its failure."""
    return await who.in_session(session, lambda found: _verdict(found.task.attempt(body.number, body.entry)))


@router.post(f"{PREFIX}/checkpoint", status_code=201)
async def checkpoint(who: From, session: Ref, body: models.CheckpointRequest) -> SnapshotAnswer:
    """Capture a session together with the record, at one instant."""

    def work(found: Session) -> SnapshotAnswer:
        return answered(found.task.checkpoint(body.label, resume_at=body.resume_at, kind=body.kind))

    return await who.in_session(session, work)


@router.post(f"{PREFIX}/resume")
async def resume(who: From, session: Ref) -> TaskResumedAnswer:
    """Bring the session back if it is suspended or dead; return the record, and the changes since."""

    def work(found: Session) -> TaskResumedAnswer:
        back = found.task.resume()
        drift = back.drift.as_dict() if back.drift is not None else None
        git = [RepositoryChangeAnswer.model_validate(as_table(each)) for each in back.repositories]
        kept = task_form.dump(back.record)
        said = {"running": list(back.running), "ran": list(back.ran), "undone": list(back.undone)}
        return TaskResumedAnswer(session=back.how, record=kept, drift=drift, git=git, **said)

    return await who.in_session(session, work)


async def _changed(who: ApiCaller, session: str, change: Callable[[Session], TaskRecord]) -> dict[str, Any]:
    return await who.in_session(session, lambda found: task_form.dump(change(found)))


def _verdict(found: TaskVerdict) -> TaskVerdictAnswer:
    record = task_form.dump(found.record)
    return TaskVerdictAnswer.model_validate({**as_table(found, "record"), "record": record})


artifact_paths = api_router(prefix="/v1/artifacts", tags=["artifacts"], responses=ERRORS)
ArtifactName = Annotated[
    str, Query(min_length=1, max_length=1000, pattern=TEXT, description="The artifact's name.")
]
OfSession = Annotated[
    str | None, Query(min_length=1, max_length=200, pattern=TEXT, description="Its session, by name or id.")
]
_BYTES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The content.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@artifact_paths.get("")
async def artifacts(who: From, session: OfSession = None) -> list[KeptArtifact]:
    """Return all artifacts, or a session's, oldest first."""
    return await who.brief(lambda hf: hf.artifacts.list(session))


@artifact_paths.get("/entry")
async def entry(who: From, name: ArtifactName, session: OfSession = None) -> KeptArtifact:
    """Return the artifact of a name."""
    return await who.brief(lambda hf: hf.artifacts.find(name, session))


@artifact_paths.get("/content", response_class=StreamingResponse, responses=_BYTES)
async def content(who: From, name: ArtifactName, session: OfSession = None) -> StreamingResponse:
    """Return the content of an artifact. The answer breaks off if it turns out to be damaged."""
    found = await who.brief(lambda hf: hf.artifacts.find(name, session))
    parts = await who.brief(lambda hf: hf.artifacts.parts(found.name, found.session_id))
    first = await who.brief(lambda _: next(parts, b""))  # now, while an error can still have a status

    async def body(data: bytes) -> AsyncIterator[bytes]:
        while data:
            yield data
            data = await who.brief(lambda _: next(parts, b""))

    headers = {"Content-Length": str(found.bytes), "X-Content-Type-Options": "nosniff"}
    return StreamingResponse(body(first), media_type="application/octet-stream", headers=headers)


@artifact_paths.delete("")
async def remove(who: From, name: ArtifactName, session: OfSession = None) -> KeptArtifact:
    """Remove an artifact, and return its description."""
    return await who.brief(lambda hf: hf.artifacts.remove(name, session))
