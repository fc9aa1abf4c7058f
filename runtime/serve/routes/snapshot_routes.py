"""Paths of snapshots: list, restore, fork, pin, compare, remove."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from holdfast.base import ids
from holdfast.base.value_classes import as_table
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.flaky.spread import Spread
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.serve.answer_forms import ERRORS
from holdfast.runtime.serve.callers import From
from holdfast.runtime.serve.models.answer_models import (
    LadderAnswer,
    RecordedAnswer,
    RedoAnswer,
    SessionAnswer,
    SnapshotAnswer,
    SpreadAnswer,
    StatedActionAnswer,
)
from holdfast.runtime.serve.models.base_models import Ref
from holdfast.runtime.serve.models.session_models import (
    PinRequest,
    RestoreRequest,
    RetryRequest,
    SnapshotForkRequest,
)
from holdfast.runtime.serve.models.task_models import RedoRequest
from holdfast.runtime.serve.routes.api_router import api_router

router = api_router(prefix="/v1/snapshots", tags=["snapshots"], responses=ERRORS)
RefQuery = Annotated[str, Query(pattern=f"^{ids.NAME}$")]


def answered(found: Snapshot) -> SnapshotAnswer:
    """Return a snapshot in the form of an answer."""
    table = found.as_dict()
    own = {name: table.pop(name) for name in SnapshotAnswer.model_fields if name in table}
    return SnapshotAnswer.model_validate({**own, "details": table})


@router.get("")
async def list_snapshots(who: From) -> list[SnapshotAnswer]:
    """List all complete snapshots, the oldest first."""
    return await who.brief(lambda hf: [answered(each) for each in hf.snapshots()])


@router.get("/diff")
async def diff(who: From, before: RefQuery, after: RefQuery, everything: bool = False) -> dict[str, Any]:
    """Compare two snapshots, of any sessions. `everything` includes caches and the like."""
    return await who.brief(lambda hf: hf.diff(before, after, everything=everything).as_dict())


@router.get("/{snapshot}")
async def get_snapshot(who: From, snapshot: Ref) -> SnapshotAnswer:
    """Return a snapshot."""
    return await who.brief(lambda hf: answered(hf.snapshot(snapshot)))


@router.delete("/{snapshot}", status_code=204)
async def remove_snapshot(who: From, snapshot: Ref) -> Response:
    """Delete a snapshot."""
    await who.brief(lambda hf: hf.remove_snapshot(snapshot))
    return Response(status_code=204)


@router.patch("/{snapshot}")
async def pin(who: From, snapshot: Ref, body: PinRequest) -> SnapshotAnswer:
    """Keep a snapshot until it is removed by hand, or leave it to policy and quota again."""
    return await who.brief(lambda hf: answered(hf.snapshot(snapshot).pin(pinned=body.pinned)))


@router.get("/{snapshot}/fits")
async def fits(who: From, snapshot: Ref) -> LadderAnswer:
    """Return the possible rungs of a snapshot on this machine, and the obstacles to the others."""
    return await who.brief(lambda hf: LadderAnswer.model_validate(hf.snapshot(snapshot).fits().as_dict()))


@router.get("/{snapshot}/commands")
async def recorded(who: From, snapshot: Ref) -> list[RecordedAnswer]:
    """Return the commands run up to a snapshot since its processes began, the oldest first."""

    def work(controller: Holdfast) -> list[RecordedAnswer]:
        found = controller.snapshot(snapshot).recorded()
        return [RecordedAnswer.model_validate(as_table(each)) for each in found]

    return await who.brief(work)


@router.get("/{snapshot}/actions")
async def actions(who: From, snapshot: Ref, since: RefQuery | None = None) -> list[StatedActionAnswer]:
    """Return each action that led to a snapshot, with its stated reason and its result, the oldest first.

    They begin after the snapshot `since`; by default after the last checkpoint before it.
    """

    def work(controller: Holdfast) -> list[StatedActionAnswer]:
        found = controller.snapshot(snapshot).actions(since)
        return [StatedActionAnswer.model_validate(as_table(each)) for each in found]

    return await who.brief(work)


@router.post("/{snapshot}/redo", status_code=201)
async def redo(who: From, snapshot: Ref, body: RedoRequest) -> RedoAnswer:
    """Repeat in a new session the actions that led to a snapshot, up to the first difference.

    A client that leaves ends it after the action that runs; the session stays.
    """
    how: dict[str, Any] = body.model_dump()

    def work(patience: Patience) -> RedoAnswer:
        found = who.holdfast().snapshot(snapshot).redo(patience=patience, **how)
        return RedoAnswer.model_validate(found.as_dict())

    return await who.while_there(None, work)


@router.post("/{snapshot}/restore", status_code=201)
async def restore(who: From, snapshot: Ref, body: RestoreRequest) -> SessionAnswer:
    """Make a session that continues from a snapshot."""
    how: dict[str, Any] = body.model_dump()
    return await who.brief(
        lambda hf: SessionAnswer.model_validate(hf.snapshot(snapshot).restore(**how).as_dict())
    )


@router.post("/{snapshot}/fork", status_code=201)
async def fork(who: From, snapshot: Ref, body: SnapshotForkRequest) -> list[SessionAnswer]:
    """Make sessions that continue from a snapshot: all of them or none."""
    how: dict[str, Any] = body.model_dump()
    return await who.brief(
        lambda hf: [
            SessionAnswer.model_validate(each.as_dict()) for each in hf.snapshot(snapshot).fork(**how)
        ]
    )


retries = api_router(prefix="/v1/snapshots", tags=["snapshots"], responses=ERRORS)


@retries.post("/{snapshot}/retry")
async def retry(who: From, snapshot: Ref, body: RetryRequest) -> SpreadAnswer:
    """Run a command many times from a snapshot, each in a copy of its own, and compare the ends.

    A client that leaves ends all runs, and no copy is left of them.
    """
    how = body.model_dump()

    def work(patience: Patience) -> SpreadAnswer:
        spread = who.holdfast().snapshot(snapshot).retry(patience=patience, **how)
        return SpreadAnswer.model_validate(spread_table(spread))

    return await who.while_there(None, work)


def spread_table(spread: Spread) -> dict[str, Any]:
    """Return the fields of the answer. The outputs of all runs together could have hundreds of megabytes."""
    shown = {kind.first.number for kind in spread.kinds}
    runs = [
        {**as_table(run), "status": run.status, "output": list(run.output) if run.number in shown else []}
        for run in spread.runs
    ]
    return {**spread.as_dict(), "compare_output": spread.compare_output, "runs": runs}
