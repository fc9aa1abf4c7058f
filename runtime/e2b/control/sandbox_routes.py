"""Paths of sandboxes: create, list, inspect, connect, pause, kill."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query
from starlette.responses import JSONResponse, Response

from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.e2b import sandbox_endings, sandbox_facts
from holdfast.runtime.e2b.control import sandbox_answers, sandbox_making
from holdfast.runtime.e2b.control.control_caller import ControlCaller, control_caller
from holdfast.runtime.e2b.control.sandbox_listing import NEXT, ListQuery, page
from holdfast.runtime.e2b.control.sandbox_requests import (
    ConnectBody,
    NewSandbox,
    PauseBody,
    RefreshBody,
    TimeoutBody,
)
from holdfast.runtime.e2b.e2b_errors import AlreadyPaused, CannotPause, NotOffered, SandboxNotFound, status_of
from holdfast.runtime.e2b.sandbox_facts import SandboxFacts
from holdfast.runtime.store.rows import SessionRow

router = APIRouter()
From = Annotated[ControlCaller, Depends(control_caller)]
Key = Annotated[str | None, Header(alias="idempotency-key")]
States = Annotated[list[str] | None, Query()]
FIRST_SECONDS, SECOND_SECONDS = 15, 300
"""The default timeouts of the two paths that create sandboxes."""


async def _create(who: ControlCaller, body: NewSandbox, key: str | None, seconds: int) -> dict[str, Any]:
    body.check()

    async def work(facts: SandboxFacts) -> SessionRow:
        return await who.brief(lambda hf: sandbox_making.found_or_made(hf, body, facts))

    facts = body.facts(seconds)
    row = await who.once.made(key, body, facts, work)
    who.changed()
    return sandbox_answers.made(row, who.tokens, who.domain)


@router.post("/sandboxes", status_code=201)
async def create_first(who: From, body: NewSandbox, key: Key = None) -> dict[str, Any]:
    """Make a sandbox."""
    if body.allow_internet_access:
        # Clients of this path always send true, chosen or not: it must not open a closed snapshot.
        body.allow_internet_access = None
    return await _create(who, body, key, FIRST_SECONDS)


@router.post("/v2/sandboxes", status_code=201)
async def create_second(who: From, body: NewSandbox, key: Key = None) -> dict[str, Any]:
    """Make a sandbox."""
    return await _create(who, body, key, SECOND_SECONDS)


async def _list(
    who: ControlCaller, query: ListQuery, limit: int | None, token: str | None, *, oldest_first: bool
) -> JSONResponse:
    def work(hf: Holdfast) -> JSONResponse:
        rows = [each.row for each in hf.sessions() if query.fits(each.row)]
        found = page(rows, limit, token, oldest_first=oldest_first)
        disk = sandbox_answers.disk_size(str(hf.home.root))
        answer = JSONResponse([sandbox_answers.listed(row, disk) for row in found.rows])
        if found.next_token:
            answer.headers[NEXT] = found.next_token
        return answer

    return await who.brief(work)


@router.get("/sandboxes")
async def list_running(who: From, metadata: str | None = None) -> JSONResponse:
    """List the sandboxes that run."""
    return await _list(
        who, ListQuery.parse(metadata, ["running"], None, None), None, None, oldest_first=False
    )


@router.get("/v2/sandboxes")
async def list_sandboxes(
    who: From,
    metadata: str | None = None,
    state: States = None,
    template: str | None = None,
    started_after: Annotated[str | None, Query(alias="startedAfter")] = None,
    order: str = "desc",
    limit: int | None = None,
    token: Annotated[str | None, Query(alias="nextToken")] = None,
) -> JSONResponse:
    """List sandboxes that clients made, in pages."""
    if order not in ("asc", "desc"):
        raise InvalidArgument("cannot list in that order: there are asc and desc")
    query = ListQuery.parse(metadata, state or (), template, started_after)
    return await _list(who, query, limit, token, oldest_first=order == "asc")


@router.get("/sandboxes/{sandbox}")
async def look(who: From, sandbox: str) -> dict[str, Any]:
    """Return a sandbox."""

    def work(found: Session) -> dict[str, Any]:
        row = found.refresh().row
        if row.state not in ("running", "suspended"):
            raise SandboxNotFound(f"cannot find the sandbox {row.id}: it has ended")
        disk = sandbox_answers.disk_size(str(who.all.home.root))
        return sandbox_answers.detailed(row, who.tokens, who.domain, disk)

    return await who.in_session(sandbox, work)


@router.delete("/sandboxes/{sandbox}", status_code=204)
async def kill(who: From, sandbox: str) -> Response:
    """End a sandbox."""
    # Not of the sandbox's share: one that does not answer must be possible to end.
    await who.brief(lambda hf: sandbox_endings.kill(hf, who.session(sandbox).row))
    return Response(status_code=204)


@router.post("/sandboxes/{sandbox}/connect")
@router.post("/v2/sandboxes/{sandbox}/connect")
@router.post("/sandboxes/{sandbox}/resume")
async def connect(who: From, sandbox: str, body: ConnectBody) -> JSONResponse:
    """Return a sandbox that runs; one that is paused is resumed (201)."""

    def work(found: Session) -> JSONResponse:
        row = found.refresh().row
        resumes = row.state == "suspended"
        if resumes and not body.memory and not (SandboxFacts.of(row) or SandboxFacts()).files_only:
            raise NotOffered(
                "cannot resume a sandbox without the memory it was paused with: it continues as it was",
                hint="pause it without its memory",
            )
        if resumes:
            row = sandbox_endings.resume(who.holdfast(), row)
        if row.state != "running":
            raise SandboxNotFound(f"cannot connect to the sandbox {row.id}: it has ended")
        now = time.time()
        sandbox_facts.change(
            who.holdfast().store, row.id, lambda facts: facts.given(body.timeout, now, longer=not resumes)
        )
        return JSONResponse(sandbox_answers.made(row, who.tokens, who.domain), 201 if resumes else 200)

    answer = await who.in_session(sandbox, work)
    who.changed()
    return answer


@router.post("/sandboxes/{sandbox}/timeout", status_code=204)
async def change_end(who: From, sandbox: str, body: TimeoutBody) -> Response:
    """Set the end of a sandbox, in seconds from now."""
    return await _end_in(who, sandbox, body.timeout, longer=False)


@router.post("/sandboxes/{sandbox}/refreshes", status_code=204)
async def refresh(who: From, sandbox: str, body: RefreshBody) -> Response:
    """Extend the life of a sandbox, in seconds from now; never shorten it."""
    return await _end_in(who, sandbox, body.duration, longer=True)


async def _end_in(who: ControlCaller, sandbox: str, seconds: int, *, longer: bool) -> Response:
    def work(found: Session) -> None:
        if found.state != "running":
            raise SandboxNotFound(f"cannot change the end of the sandbox {found.id}: it does not run")
        now = time.time()
        if not sandbox_facts.change(
            who.holdfast().store, found.id, lambda facts: facts.given(seconds, now, longer=longer)
        ):
            raise InvalidArgument(
                f"cannot give session {found.name} an end: no client of this wire made it", hint="kill it"
            )

    await who.in_session(sandbox, work)
    who.changed()
    return Response(status_code=204)


@router.post("/sandboxes/{sandbox}/pause", status_code=204)
async def pause(who: From, sandbox: str, body: PauseBody | None = None) -> Response:
    """Capture a sandbox, or only its files, then free its memory and processors."""

    def work(found: Session) -> None:
        row = found.refresh().row
        if row.state == "suspended":
            raise AlreadyPaused(f"cannot pause the sandbox {row.id}: it is paused already")
        try:
            sandbox_endings.pause(who.holdfast(), row, memory=body is None or body.memory)
        except HoldfastError as error:
            now = who.holdfast().store.find_session(row.id)
            if status_of(error) != 409 or now is None or now.state == "suspended":
                raise
            raise CannotPause(str(error), hint=error.hint) from error

    await who.in_session(sandbox, work)
    return Response(status_code=204)
