"""Paths of recordings: what a terminal showed, as events or as a file for asciinema."""

from __future__ import annotations

import io
from dataclasses import asdict
from typing import IO, Annotated, Any

from fastapi import Depends, Query
from starlette.responses import StreamingResponse

from holdfast.base import printable_json
from holdfast.runtime.api.session import Session
from holdfast.runtime.history.recording.recording import Recording
from holdfast.runtime.scrubbing import rules_file
from holdfast.runtime.serve.answers import ERRORS, ITEM
from holdfast.runtime.serve.callers import ApiCaller, caller
from holdfast.runtime.serve.models.answer_models import CastEventAnswer, RecordingAnswer
from holdfast.runtime.serve.models.base_models import TEXT, PartRef, Ref
from holdfast.runtime.serve.routes.api_router import api_router
from holdfast.runtime.serve.written_bodies import written_body

router = api_router(
    prefix="/v1/sessions/{session}/shells/{shell}/recording", tags=["recordings"], responses=ERRORS
)
From = Annotated[ApiCaller, Depends(caller)]
Place = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=200,
        pattern=TEXT,
        description="An offset of the output, a time, `10m` for ten minutes ago, or a snapshot.",
    ),
]
EVENTS = "application/x-ndjson"
CAST = "application/x-asciicast"
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The events, one object a line.",
        "content": {EVENTS: {ITEM: CastEventAnswer.model_json_schema()}},
    }
}
_CAST: dict[int | str, dict[str, Any]] = {
    200: {"description": "A file in asciicast v2.", "content": {CAST: {"schema": {"type": "string"}}}}
}


@router.get("")
async def recording(
    who: From, session: Ref, shell: PartRef, start: Place = None, end: Place = None
) -> RecordingAnswer:
    """Return what is kept of what a terminal showed between two places, by default of everything."""
    found = await who.in_session(session, lambda each: _recording(each, shell, start, end))
    return RecordingAnswer(
        start=found.start,
        end=found.end,
        kept_start=found.kept.start,
        kept_end=found.kept.end,
        missing=found.missing,
        begun=found.begun,
        rows=found.rows,
        cols=found.cols,
        title=found.title,
    )


@router.get("/events", response_class=StreamingResponse, responses=_EVENTS)
async def events(
    who: From, session: Ref, shell: PartRef, start: Place = None, end: Place = None
) -> StreamingResponse:
    """Send what happened on a terminal, first the screen it begins with. Output is as programs wrote it."""
    found = await who.in_session(session, lambda each: _recording(each, shell, start, end))

    def write(stream: IO[bytes]) -> None:
        for event in found.events():
            stream.write(f"{printable_json.dumps(asdict(event))}\n".encode())

    return written_body(who, EVENTS, write)


@router.get("/cast", response_class=StreamingResponse, responses=_CAST)
async def cast(
    who: From,
    session: Ref,
    shell: PartRef,
    start: Place = None,
    end: Place = None,
    raw: bool = False,
) -> StreamingResponse:
    """Send it as a file for asciinema, safe for any terminal and without secrets that the rules find.

    `raw` leaves it as it is.
    """
    found = await who.in_session(session, lambda each: _recording(each, shell, start, end))

    def write(stream: IO[bytes]) -> None:
        matcher = None if raw else rules_file.read(who.all.home).matcher()
        text = io.TextIOWrapper(stream, "utf-8", newline="\n")
        found.write(text, raw=raw, matcher=matcher)
        text.flush()
        text.detach()

    return written_body(who, CAST, write)


def _recording(found: Session, shell: str, start: str | None, end: str | None) -> Recording:
    return found.terminal_of(shell).recording(start, end)
