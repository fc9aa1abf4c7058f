"""The RPCs that look at files and change them: each is one request, and one answer."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.responses import JSONResponse

from holdfast.runtime.api.session import Session
from holdfast.runtime.e2b.filesystem.entry_info import shown
from holdfast.runtime.e2b.filesystem.filesystem_models import (
    ListRequest,
    PathRequest,
    RenameRequest,
    StatRequest,
)
from holdfast.runtime.e2b.filesystem.folder_listing import FolderListing, described, is_folder, make_above
from holdfast.runtime.e2b.sandbox_caller import SandboxCaller, sandbox_caller

router = APIRouter(prefix="/filesystem.Filesystem")
From = Annotated[SandboxCaller, Depends(sandbox_caller)]


@router.post("/Stat")
async def stat(who: From, body: StatRequest) -> dict[str, Any]:
    """Return what is at a path, a link itself."""
    return await who.in_session(
        who.sandbox, lambda found: {"entry": described(who.files(found, who.user), body.path)}
    )


@router.post("/ListDir")
async def list_folder(who: From, body: ListRequest) -> dict[str, Any]:
    """Return what is in a folder, and in those below."""

    def work(found: Session) -> dict[str, Any]:
        return {"entries": FolderListing(who.files(found, who.user)).of(body.path, body.depth)}

    return await who.in_session(who.sandbox, work)


@router.post("/MakeDir")
async def make_folder(who: From, body: PathRequest) -> JSONResponse:
    """Make a folder, and those above it."""

    def work(found: Session) -> dict[str, Any] | None:
        place = who.files(found, who.user)
        if is_folder(place, body.path):
            return None
        place.make_folder(body.path, parents=True)
        return {"entry": described(place, body.path)}

    made = await who.in_session(who.sandbox, work)
    if made is None:  # clients take just this code for an answer, and not for an error
        told = f"cannot make the directory {shown(body.path)}: it exists already"
        return JSONResponse({"code": "already_exists", "message": told}, 409)
    return JSONResponse(made)


@router.post("/Move")
async def move(who: From, body: RenameRequest) -> dict[str, Any]:
    """Give a file or folder another path; the folders above that are made."""

    def work(found: Session) -> dict[str, Any]:
        place = who.files(found, who.user)
        place.stat(body.source, follow=False)  # before a folder is made for nothing
        make_above(place, body.destination)
        place.move(body.source, body.destination)
        return {"entry": described(place, body.destination)}

    return await who.in_session(who.sandbox, work)


@router.post("/Remove")
async def remove(who: From, body: PathRequest) -> dict[str, Any]:
    """Remove a file, or a folder with all that is in it; nothing has to be there."""

    def work(found: Session) -> dict[str, Any]:
        who.files(found, who.user).remove(body.path, recursive=True, missing_ok=True)
        return {}

    return await who.in_session(who.sandbox, work)
