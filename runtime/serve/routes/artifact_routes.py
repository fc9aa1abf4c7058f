"""Paths of artifacts: files that sessions have produced, also sessions that are gone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Depends, Query
from starlette.responses import StreamingResponse

from holdfast.runtime.artifacts.kept_artifact import KeptArtifact
from holdfast.runtime.serve.answers import ERRORS
from holdfast.runtime.serve.callers import ApiCaller, caller
from holdfast.runtime.serve.models.base_models import TEXT
from holdfast.runtime.serve.routes.api_router import api_router

router = api_router(prefix="/v1/artifacts", tags=["artifacts"], responses=ERRORS)
From = Annotated[ApiCaller, Depends(caller)]
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


@router.get("")
async def artifacts(who: From, session: OfSession = None) -> list[KeptArtifact]:
    """Return all artifacts, or those of a session, oldest first."""
    return await who.brief(lambda hf: hf.artifacts.list(session))


@router.get("/entry")
async def entry(who: From, name: ArtifactName, session: OfSession = None) -> KeptArtifact:
    """Return the artifact of a name."""
    return await who.brief(lambda hf: hf.artifacts.find(name, session))


@router.get("/content", response_class=StreamingResponse, responses=_BYTES)
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


@router.delete("")
async def remove(who: From, name: ArtifactName, session: OfSession = None) -> KeptArtifact:
    """Remove an artifact, and return what it was."""
    return await who.brief(lambda hf: hf.artifacts.remove(name, session))
