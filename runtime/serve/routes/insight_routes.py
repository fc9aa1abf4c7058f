"""Paths that change nothing: pulse, journal, events, drift, and changes of files as they happen."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BeforeValidator, Field
from starlette.responses import Response

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.serve import event_format
from holdfast.runtime.serve.answer_forms import ERRORS, EVENTS
from holdfast.runtime.serve.callers import ApiCaller, From
from holdfast.runtime.serve.calls.followed_calls import events_call, watch_call
from holdfast.runtime.serve.event_streams import LastEvent, place, stream
from holdfast.runtime.serve.models.base_models import TEXT, Offset, Ref
from holdfast.runtime.serve.models.command_models import EventsQuery, WatchQuery
from holdfast.runtime.serve.models.file_models import FilePath, UserQuery
from holdfast.runtime.serve.routes.api_router import api_router

router = api_router(prefix="/v1/sessions/{session}", tags=["insight"], responses=ERRORS)
Kinds = Annotated[list[Annotated[str, Query(pattern=r"^[a-z][a-z0-9_]{0,39}$")]] | None, Query()]
PulsePart = Literal["processes", "files", "sockets", "limits", "terminals", "kernels", "variables"]
STREAM: dict[int | str, dict[str, Any]] = {200: {"description": "Events as they come.", "content": EVENTS}}
Moment = Annotated[str, Query(min_length=1, max_length=200, pattern=TEXT)]
FileQuery = Annotated[str, Field(min_length=1, max_length=4096, pattern=TEXT)]
_DATE = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def _written(given: str) -> str:
    """Refuse what the form of a time does not allow: numbers, and times of no known zone."""
    if not _DATE.fullmatch(given):
        raise ValueError("it must be a time as RFC 3339 has it, such as 2026-01-31T12:00:00Z")
    return given


Time = Annotated[datetime, BeforeValidator(_written), Query(description="As RFC 3339 has it, with a zone.")]


@router.get("/pulse")
async def pulse(
    who: From,
    session: Ref,
    part: Annotated[list[PulsePart] | None, Query()] = None,
    files: bool = False,
    pid: Annotated[int | None, Query(ge=1, le=2**22, description="Look closer at this process.")] = None,
    file: Annotated[FileQuery | None, Query(description="Find the processes with this file.")] = None,
    screens: bool = False,
    disk: bool = False,
    since: Moment | None = None,
) -> dict[str, Any]:
    """Return the present activity in a session: processes, files, sockets, terminals, kernels, limits.

    `disk` adds what was written since the image, `since` what was since a moment, as `drift` takes it.
    """

    def work(found: Session) -> dict[str, Any]:
        return found.pulse(
            parts=part, files=files, pid=pid, file=file, screens=screens, disk=disk, since=since
        ).as_dict()

    return await who.in_session(session, work)


@router.get("/journal")
async def journal(
    who: From,
    session: Ref,
    after: Offset | None = None,
    kind: Kinds = None,
    actor: Annotated[str | None, Query(max_length=100)] = None,
    since: Time | None = None,
    grep: Annotated[str | None, Query(max_length=500)] = None,
    all_timelines: bool = False,
    limit: Annotated[int | None, Query(ge=1, lt=2**31, description="Only this many of the newest.")] = None,
) -> list[dict[str, Any]]:
    """Return the journal of a session and its ancestors, the oldest first; also after its removal."""

    def work(controller: Holdfast) -> list[dict[str, Any]]:
        entries = controller.session(session, removed=True).journal(
            after,
            kinds=kind,
            actor=actor,
            since=since,
            grep=grep,
            all_timelines=all_timelines,
            limit=limit,
        )
        return [each.as_dict() for each in entries]

    return await who.brief(work)


@router.get("/metrics")
async def metrics(who: From, session: Ref, since: Time | None = None) -> list[dict[str, Any]]:
    """Return the metrics of the last day: every 5 s for an hour, and every minute before that."""

    def work(found: Session) -> list[dict[str, Any]]:
        return [each.as_dict() for each in found.metrics(since)]

    return await who.in_session(session, work)


@router.get("/drift")
async def drift(
    who: From,
    session: Ref,
    since: Moment | None = None,
    everything: bool = False,
) -> dict[str, Any]:
    """Return the changes since a snapshot, a journal entry (`#12`), `10m`, or a time.

    Without `since`: since the last capture, or since the beginning of a session that has none.
    """
    return await who.in_session(session, lambda found: found.drift(since, everything=everything).as_dict())


@router.get("/events", response_class=Response, responses=STREAM)
async def events(
    who: From, session: Ref, after: Offset = 0, kind: Kinds = None, last: LastEvent = None
) -> Response:
    """Send a session's events as they happen: deaths and their causes, waits, people who joined."""
    asked = EventsQuery(after=place(last, after) or 0, kind=kind)
    return await stream(who, session, None, _form(who), events_call(asked))


@router.get("/files/watch", response_class=Response, responses=STREAM, tags=["files"])
async def watch(
    who: From,
    session: Ref,
    path: FilePath = ".",
    recursive: bool = False,
    user: UserQuery = None,
) -> Response:
    """Send changes of a folder or a file as they happen."""

    asked = WatchQuery(path=path, recursive=recursive, user=user)
    return await stream(who, session, None, _form(who), watch_call(asked))


def _form(who: ApiCaller) -> event_format.Form:
    form = event_format.wanted(who.request.headers.get("accept", ""))
    return event_format.NDJSON if form == event_format.JSON else form
