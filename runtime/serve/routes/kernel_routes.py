"""Paths of kernels: cells, their answers, interrupts, and the kernels themselves."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from holdfast.runtime.guest import defaults
from holdfast.runtime.guest_rpc.kernel_report import KernelInfo
from holdfast.runtime.serve.answer_forms import ERRORS, streamed
from holdfast.runtime.serve.callers import From
from holdfast.runtime.serve.calls.followed_calls import answer_cell_call, cell_call, join_cell_call
from holdfast.runtime.serve.event_streams import LastEvent, answered, place
from holdfast.runtime.serve.models.answer_models import CellAnswer, KernelAnswer, KernelSpecAnswer
from holdfast.runtime.serve.models.base_models import (
    Id,
    Key,
    Offset,
    PartQuery,
    PartRef,
    PatienceQuery,
    Ref,
)
from holdfast.runtime.serve.models.command_models import CellAnswerRequest, CellQuery, CellRequest
from holdfast.runtime.serve.models.session_models import KernelRequest
from holdfast.runtime.serve.routes.api_router import api_router

router = api_router(prefix="/v1/sessions/{session}", tags=["kernels"], responses=ERRORS)
CellQueryId = Annotated[str, Query(pattern=r"^[A-Za-z0-9_.-]{1,80}$")]


@router.post("/cells", response_model=CellAnswer, responses=streamed(CellAnswer))
async def cell(who: From, session: Ref, body: CellRequest, key: Key = None) -> Any:
    """Run code in a kernel, until it ends or asks for input. Code that raises is a result.

    Streams as `exec` does; `cells/{id}` follows it further.
    """
    return await answered(who, session, body.patience, cell_call(body, key))


@router.get("/cells/{cell_id}", response_model=CellAnswer, responses=streamed(CellAnswer))
async def join_cell(
    who: From,
    session: Ref,
    cell_id: Id,
    after: Offset = 0,
    patience: PatienceQuery = None,
    kernel: PartQuery = defaults.MAIN,
    last: LastEvent = None,
) -> Any:
    """Follow a running cell, from an event on: to its end, or until it asks."""
    asked = CellQuery(after=place(last, after) or 0, kernel=kernel)
    return await answered(who, session, patience, join_cell_call(cell_id, asked))


@router.post("/cells/{cell_id}/answer", response_model=CellAnswer, responses=streamed(CellAnswer))
async def answer_cell(who: From, session: Ref, cell_id: Id, body: CellAnswerRequest) -> Any:
    """Answer a cell that asks for a line, and follow it from there. Streams as `exec` does."""
    return await answered(who, session, body.patience, answer_cell_call(cell_id, body))


@router.get("/kernels")
async def list_kernels(who: From, session: Ref) -> list[KernelAnswer]:
    """List the kernels, the main one first."""
    return [_kernel(each) for each in await who.in_session(session, lambda found: found.kernels.list())]


@router.get("/kernel-specs")
async def list_kernel_specs(who: From, session: Ref) -> list[KernelSpecAnswer]:
    """List the specs of Jupyter that are found in the session, by their names."""
    found = await who.in_session(session, lambda each: each.kernels.specs())
    return [KernelSpecAnswer.model_validate(each.model_dump()) for each in found]


@router.post("/kernels", status_code=201)
async def open_kernel(who: From, session: Ref, body: KernelRequest) -> KernelAnswer:
    """Open a kernel, or return the open kernel with that name."""
    return _kernel(
        await who.in_session(
            session, lambda found: found.kernels.open(body.name, spec=body.spec, cwd=body.cwd)
        )
    )


@router.delete("/kernels/{kernel}", status_code=204)
async def close_kernel(who: From, session: Ref, kernel: PartRef, force: bool = False) -> Response:
    """End a kernel, and forget its variables and cells; with `force` also if a cell runs in it."""
    await who.in_session(session, lambda found: found.kernels.close(kernel, force=force))
    return Response(status_code=204)


@router.post("/kernels/{kernel}/interrupt", status_code=204)
async def interrupt_kernel(
    who: From, session: Ref, kernel: PartRef, cell_id: CellQueryId | None = None
) -> Response:
    """Interrupt a kernel; with `cell_id` only that cell, if it is still running."""
    await who.in_session(session, lambda found: found.kernel.interrupt(kernel, cell_id=cell_id))
    return Response(status_code=204)


@router.post("/kernels/{kernel}/restart", status_code=204)
async def restart_kernel(who: From, session: Ref, kernel: PartRef) -> Response:
    """End a kernel and start a new one; its variables are lost."""
    await who.in_session(session, lambda found: found.kernel.restart(kernel))
    return Response(status_code=204)


def _kernel(found: KernelInfo) -> KernelAnswer:
    return KernelAnswer.model_validate(found.model_dump())
