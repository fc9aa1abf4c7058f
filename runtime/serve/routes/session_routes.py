"""Paths of sessions: make, list, suspend, resume, fork, rewind, remove, and their reach."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from holdfast.runtime.api.session import Session
from holdfast.runtime.serve.answer_forms import ERRORS
from holdfast.runtime.serve.callers import From
from holdfast.runtime.serve.models.answer_models import (
    CheckAnswer,
    ReachAnswer,
    RewoundAnswer,
    SessionAnswer,
    SnapshotAnswer,
)
from holdfast.runtime.serve.models.base_models import Ref
from holdfast.runtime.serve.models.session_models import (
    ForkRequest,
    LabelsRequest,
    LifetimeFields,
    NetworkRequest,
    PolicyFields,
    RewindRequest,
    SessionRequest,
    SnapshotRequest,
    TemplateRequest,
)
from holdfast.runtime.serve.routes.api_router import api_router
from holdfast.runtime.serve.routes.snapshot_routes import answered as snapshot_answer
from holdfast.runtime.sessions import session_labels

router = api_router(prefix="/v1/sessions", tags=["sessions"], responses=ERRORS)
_LABEL = rf"^{session_labels.KEY}(=[^\x00-\x1f\x7f]{{0,{session_labels.LONGEST}}})?$"
Asked = Annotated[
    list[Annotated[str, Field(pattern=_LABEL)]] | None,
    Query(
        max_length=session_labels.MOST,
        description="Only sessions with all of these: KEY=VALUE, or KEY.",
    ),
]


def answered(found: Session) -> SessionAnswer:
    """Return a session in the form of an answer."""
    return SessionAnswer.model_validate(found.as_dict())


@router.get("")
async def list_sessions(who: From, label: Asked = None) -> list[SessionAnswer]:
    """List the sessions, the oldest first."""
    return await who.brief(lambda hf: [answered(each) for each in hf.sessions(labels=label)])


@router.post("", status_code=201)
async def new(who: From, body: SessionRequest) -> SessionAnswer:
    """Make a session; it lasts until it is removed."""
    given = body.options()
    if body.policy is not None:
        given["policy"] = body.policy.model_dump(exclude_unset=True)
    answer = await who.brief(lambda hf: answered(hf.new(**given)))
    who.all.lifetime_changed()
    return answer


@router.get("/{session}")
async def get_session(who: From, session: Ref, removed: bool = False) -> SessionAnswer:
    """Return a session in its container's present state; with `removed` also a removed one."""
    if removed:
        return await who.brief(lambda hf: answered(hf.session(session, removed=True).refresh()))
    return await who.in_session(session, lambda found: answered(found.refresh()))


@router.delete("/{session}", status_code=204)
async def remove(who: From, session: Ref) -> Response:
    """End a session; its snapshots stay, and uncaptured state is lost."""
    # Not of the session's share: one that does not answer must be possible to end.
    await who.brief(lambda _: who.session(session).remove())
    return Response(status_code=204)


@router.patch("/{session}/lifetime")
async def lifetime(who: From, session: Ref, body: LifetimeFields) -> SessionAnswer:
    """Change when a session ends and sleeps; a life begins now, even if its length is unchanged."""
    given = body.model_dump(exclude_unset=True)

    def work(found: Session) -> SessionAnswer:
        found.lifetime(**given)
        return answered(found)

    answer = await who.in_session(session, work)
    who.all.lifetime_changed()
    return answer


@router.put("/{session}/labels")
async def set_labels(who: From, session: Ref, body: LabelsRequest) -> SessionAnswer:
    """Replace the labels of a session."""
    return await who.in_session(session, lambda found: answered(found.set_labels(body.labels)))


@router.post("/{session}/snapshots", status_code=201)
async def snapshot(who: From, session: Ref, body: SnapshotRequest) -> SnapshotAnswer:
    """Capture a session at one instant: files, memory and processes. It continues."""

    def work(found: Session) -> SnapshotAnswer:
        taken = found.snapshot(body.label, body.kind, reason=body.reason, force_drop=body.force_drop)
        return snapshot_answer(taken)

    return await who.in_session(session, work)


@router.post("/{session}/template", status_code=201)
async def template(who: From, session: Ref, body: TemplateRequest) -> SnapshotAnswer:
    """Capture a session as a template, from which new ones start. It continues."""
    how = body.model_dump()
    return await who.in_session(session, lambda found: snapshot_answer(found.template(**how)))


@router.get("/{session}/check")
async def check(who: From, session: Ref, own: bool = False) -> CheckAnswer:
    """Return the resources that would survive a capture, and the obstacles; with `own` also the
    supervisor's."""
    return await who.in_session(
        session, lambda found: CheckAnswer.model_validate(found.check().as_dict(own=own))
    )


@router.post("/{session}/fork", status_code=201)
async def fork(who: From, session: Ref, body: ForkRequest) -> list[SessionAnswer]:
    """Make sessions that continue from this instant; this one also continues."""
    how = body.model_dump()
    return await who.in_session(session, lambda found: [answered(each) for each in found.fork(**how)])


@router.post("/{session}/suspend")
async def suspend(who: From, session: Ref) -> SessionAnswer:
    """Capture a session, then free its memory and processors."""
    return await who.in_session(session, lambda found: answered(found.suspend()))


@router.post("/{session}/resume")
async def resume(who: From, session: Ref) -> SessionAnswer:
    """Resume a suspended session, or start a dead one again on its files."""
    return await who.in_session(session, lambda found: answered(found.resume()))


@router.post("/{session}/rewind")
async def rewind(who: From, session: Ref, body: RewindRequest) -> RewoundAnswer:
    """Go back to a snapshot in place; the present is captured first, unless it is to be discarded."""
    how = body.model_dump(exclude={"snapshot"})

    def work(found: Session) -> RewoundAnswer:
        return RewoundAnswer.model_validate(found.rewind(body.snapshot, **how).as_dict())

    return await who.in_session(session, work)


@router.get("/{session}/network")
async def network(who: From, session: Ref) -> ReachAnswer:
    """Return the reach of a session, and its recent refusals."""
    return await who.in_session(session, lambda found: ReachAnswer.model_validate(found.network().as_dict()))


@router.patch("/{session}/network")
async def change_network(who: From, session: Ref, body: NetworkRequest) -> ReachAnswer:
    """Change the reach of a session, in one step."""
    how = body.model_dump()
    return await who.in_session(
        session, lambda found: ReachAnswer.model_validate(found.change_network(**how).network().as_dict())
    )


@router.patch("/{session}/policy")
async def policy(who: From, session: Ref, body: PolicyFields) -> dict[str, Any]:
    """Return when a session is captured automatically, after changes; without any, as it is."""
    given = body.model_dump(exclude_unset=True)
    return await who.in_session(session, lambda found: found.policy(**given).as_dict())
