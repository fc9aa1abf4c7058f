"""Paths of snapshots, and of forks of running sandboxes."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.responses import JSONResponse, Response

from holdfast.errors import HoldfastError
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.e2b import e2b_errors
from holdfast.runtime.e2b.control import sandbox_answers, sandbox_making
from holdfast.runtime.e2b.control.control_caller import ControlCaller, control_caller
from holdfast.runtime.e2b.control.sandbox_listing import NEXT, page
from holdfast.runtime.e2b.control.sandbox_requests import ForkBody, SnapshotBody
from holdfast.runtime.e2b.sandbox_facts import SandboxFacts
from holdfast.runtime.restore import restore_service
from holdfast.runtime.store.row_details import SessionDetails
from holdfast.runtime.store.rows import SnapshotRow

router = APIRouter()
From = Annotated[ControlCaller, Depends(control_caller)]


def _answered(row: SnapshotRow) -> dict[str, Any]:
    return {"snapshotID": row.id, "names": [row.label] if row.label else []}


@router.post("/sandboxes/{sandbox}/snapshots", status_code=201)
async def take_snapshot(who: From, sandbox: str, body: SnapshotBody) -> dict[str, Any]:
    """Capture a sandbox, which continues. One of the same name is replaced."""

    def work(found: Session) -> dict[str, Any]:
        name = (body.name or "").removesuffix(":default") or None
        if name is not None and body.memory:
            return _answered(found.template(name, replace=True).row)
        # Pinned, so that no retention policy removes it.
        return _answered(found.snapshot(name, "live" if body.memory else "filesystem").pin().row)

    return await who.in_session(sandbox, work)


@router.get("/snapshots")
async def list_snapshots(
    who: From,
    sandbox: Annotated[str | None, Query(alias="sandboxID")] = None,
    name: str | None = None,
    limit: int | None = None,
    token: Annotated[str | None, Query(alias="nextToken")] = None,
) -> JSONResponse:
    """List the snapshots that were asked for, in pages; those of pauses and policies are left out."""

    def work(hf: Holdfast) -> JSONResponse:
        rows = [row for row in hf.store.snapshots(sandbox) if row.label or row.pinned]
        if name is not None:
            rows = [row for row in rows if name.removesuffix(":default") in (row.label, row.id)]
        found = page(rows, limit, token, oldest_first=False)
        answer = JSONResponse([_answered(row) for row in found.rows])
        if found.next_token:
            answer.headers[NEXT] = found.next_token
        return answer

    return await who.brief(work)


@router.delete("/templates/{template:path}", status_code=204)
async def remove_snapshot(who: From, template: str) -> Response:
    """Delete a snapshot."""
    await who.brief(lambda hf: hf.remove_snapshot(sandbox_making.snapshot_of(hf, template).id))
    return Response(status_code=204)


@router.post("/sandboxes/{sandbox}/fork", status_code=201)
async def fork(who: From, sandbox: str, body: ForkBody) -> list[dict[str, Any]]:
    """Make sandboxes that continue from this instant: all of them or none."""

    def work(found: Session) -> list[dict[str, Any]]:
        hf, taken = who.holdfast(), found.snapshot()
        facts = SandboxFacts.of(found.row) or SandboxFacts()
        own = sandbox_making.copied(facts, body.timeout, time.time())
        made = own.being_made(time.time())
        details = SessionDetails().plus(sandbox=made.model_dump(mode="json"))
        try:
            rows = restore_service.restore(
                hf.context, taken.row, None, body.count, details=details, on_touch=True
            )
        except HoldfastError as error:
            taken.remove()
            status, told = e2b_errors.status_of(error), e2b_errors.sentence(error)
            return [{"error": {"code": status, "message": told}}] * body.count
        for row in rows:
            sandbox_making.handed_over(hf, row, own.seconds)
        return [{"sandbox": sandbox_answers.made(row, who.tokens, who.domain)} for row in rows]

    answer = await who.in_session(sandbox, work)
    who.changed()
    return answer
