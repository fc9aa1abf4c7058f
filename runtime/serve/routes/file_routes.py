"""Paths of files: content with ranges, atomic writes, folders, and trees as tar."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

from fastapi import Header, Query
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from holdfast.base.text import plain
from holdfast.errors import ServerUnavailable, SessionFileError
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_files import SessionFiles, accounted_tar, located
from holdfast.runtime.files.file_requests import PART
from holdfast.runtime.files.session_file import SessionFile
from holdfast.runtime.guest.defaults import MOST_FOUND
from holdfast.runtime.serve import file_addresses
from holdfast.runtime.serve.answer_forms import ERRORS
from holdfast.runtime.serve.callers import From
from holdfast.runtime.serve.models.answer_models import (
    AddressAnswer,
    CopiedAnswer,
    FileAnswer,
    FilesAnswer,
    FoundAnswer,
    ReplacedAnswer,
    WrittenAnswer,
)
from holdfast.runtime.serve.models.base_models import TEXT, Ref
from holdfast.runtime.serve.models.file_models import (
    AddressRequest,
    FilePath,
    FilesRequest,
    FolderRequest,
    ModeRequest,
    MoveRequest,
    ReplaceRequest,
    UserQuery,
)
from holdfast.runtime.serve.routes.api_router import api_router
from holdfast.runtime.serve.streamed_bodies import BodyPipe, written_body

router = api_router(prefix="/v1/sessions/{session}/files", tags=["files"], responses=ERRORS)
Mode = Annotated[str | None, Query(pattern="^[0-7]{3,4}$", description="Permissions, in octal.")]
Range = Annotated[
    str | None,
    Header(
        alias="Range",
        max_length=300,
        description="`bytes=0-99`, or `bytes=100-` to the end. Other forms are ignored.",
    ),
]
_RANGE = re.compile(r"bytes=(\d{1,15})-(\d{1,15})?", re.ASCII)
_BYTES: dict[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_TAR: dict[str, Any] = {"application/x-tar": {"schema": {"type": "string", "format": "binary"}}}


@router.get(
    "/content",
    response_class=StreamingResponse,
    responses={
        200: {"content": _BYTES, "description": "The file."},
        206: {"content": _BYTES, "description": "The part of it that `Range` names."},
        304: {"description": "It is as `If-None-Match` says."},
        416: ERRORS[400] | {"description": "The range is outside of the file."},
    },
)
async def read(
    who: From,
    session: Ref,
    path: FilePath,
    user: UserQuery = None,
    part: Range = None,
    known: Annotated[str | None, Header(alias="If-None-Match", max_length=300)] = None,
) -> Response:
    """Return a file, or one range of it. If it changes in the meantime, the answer is cut short."""
    found = await who.in_session(session, partial(_to_be_read, path=path, user=user))
    tag = f'"{found.version}"'
    headers = {"ETag": tag, "Accept-Ranges": "bytes", "X-Content-Type-Options": "nosniff"}
    if known is not None and tag in {each.strip() for each in known.split(",")}:
        return Response(status_code=304, headers=headers)
    asked = _RANGE.fullmatch(part or "")
    # A file that claims to be empty may be one of proc(5): it ends where it ends.
    begin, end = (0, None) if found.size == 0 and asked is None else _range(asked, found.size)

    async def piece(offset: int) -> bytes:
        wanted = PART if end is None else min(PART, end - offset)
        reading = partial(_part, path=path, user=user, offset=offset, length=wanted)
        return await who.in_session(session, reading)

    async def content(data: bytes) -> AsyncIterator[bytes]:
        offset = begin
        while data:
            offset += len(data)
            yield data
            data = await piece(offset) if end is None or offset < end else b""
        if end is not None and offset < end:
            raise SessionFileError("cannot send the rest: the file has shrunk")

    first = await piece(begin)  # now, while an error can still have a status
    if end is None and len(first) < PART:
        end = len(first)
    if end is not None:
        headers["Content-Length"] = str(end - begin)
    if asked is not None:
        headers["Content-Range"] = f"bytes {begin}-{(end or 0) - 1}/{found.size}"

    return StreamingResponse(
        content(first),
        status_code=206 if asked is not None else 200,
        media_type="application/octet-stream",
        headers=headers,
    )


@router.put("/content", openapi_extra={"requestBody": {"content": _BYTES}})  # an empty file has no body
async def write(
    who: From, session: Ref, path: FilePath, user: UserQuery = None, mode: Mode = None
) -> WrittenAnswer:
    """Write a file, the bytes of the body, of any size: readers see the old content or the new one."""
    bits = None if mode is None else int(mode, 8)
    with BodyPipe(who.request.stream()) as body:
        size = await body.feed_while(
            who.waits(lambda: files(who.session(session), user).write_parts(path, body.parts(), mode=bits))
        )
    return WrittenAnswer(size=size)


@router.get("/stat")
async def stat(
    who: From,
    session: Ref,
    path: FilePath,
    user: UserQuery = None,
    follow: bool = True,
) -> FileAnswer:
    """Return the entry at a path; without `follow`, a link itself."""
    return _file(await who.in_session(session, lambda each: files(each, user).stat(path, follow=follow)))


@router.get("/list")
async def list_folder(
    who: From, session: Ref, path: FilePath = ".", user: UserQuery = None
) -> list[FileAnswer]:
    """List the entries of a folder, by name."""
    return [_file(each) for each in await who.in_session(session, lambda each: files(each, user).list(path))]


@router.get("/find")
async def find(
    who: From,
    session: Ref,
    path: FilePath = ".",
    user: UserQuery = None,
    name: Annotated[str, Query(min_length=1, max_length=255, pattern=TEXT)] = "*",
    containing: Annotated[str | None, Query(min_length=1, max_length=1000, pattern=r"^[^\n\x00]*$")] = None,
    most: Annotated[int, Query(ge=1, le=MOST_FOUND)] = 1000,
) -> list[FoundAnswer]:
    """Find files below a folder by their names, or lines of them by a text."""

    def work(each: Session) -> list[FoundAnswer]:
        found = files(each, user).find(path, name=name, containing=containing, most=most)
        return [FoundAnswer.model_validate(_shown(one.as_dict(), "path")) for one in found]

    return await who.in_session(session, work)


@router.post("/mode", status_code=204)
async def change_mode(who: From, session: Ref, body: ModeRequest, user: UserQuery = None) -> Response:
    """Change the permissions of a file or folder; a link is followed."""
    await who.in_session(session, lambda each: files(each, user).chmod(body.path, int(body.mode, 8)))
    return Response(status_code=204)


@router.post("/replace")
async def replace(who: From, session: Ref, body: ReplaceRequest, user: UserQuery = None) -> ReplacedAnswer:
    """Replace every occurrence of a text in a file; a file without it stays unchanged."""
    work = partial(_replaced, path=body.path, old=body.old, new=body.new, user=user)
    return ReplacedAnswer(count=await who.in_session(session, work))


@router.put("/many")
async def write_many(who: From, session: Ref, body: FilesRequest, user: UserQuery = None) -> FilesAnswer:
    """Write several files, each when complete; those before one that cannot be written stay written."""

    def work(found: Session) -> int:
        place = files(found, user)
        for each in body.files:  # a path may be named twice: the last one stays
            place.write(each.path, each.content)
        return len(body.files)

    return FilesAnswer(count=await who.in_session(session, work))


@router.post("/folders", status_code=204)
async def make_folder(who: From, session: Ref, body: FolderRequest, user: UserQuery = None) -> Response:
    """Make a folder; one that exists stays as it is."""
    await who.in_session(session, lambda each: files(each, user).make_folder(body.path, parents=body.parents))
    return Response(status_code=204)


@router.post("/address")
async def sign_address(
    who: From, session: Ref, body: AddressRequest, user: UserQuery = None
) -> AddressAnswer:
    """Return an address by which anyone reads (GET) or writes (POST) one file, until it expires.

    It does not have or need a token; whether the file is there shows when it is used.
    """
    found = await who.in_session(session, lambda each: each.id)
    sign, base = who.all.signature, who.request.url
    if sign is None:
        raise ServerUnavailable("cannot sign an address: this server does not serve signed addresses")
    expires_at = int(time.time()) + body.seconds
    place = f"{base.scheme}://{base.netloc}"
    signer = sign(who.access_key.id if who.access_key else "")
    url = file_addresses.address(signer, place, found, body.path, body.operation, user, expires_at)
    return AddressAnswer(url=url, expires_at=expires_at)


@router.post("/move", status_code=204)
async def move(who: From, session: Ref, body: MoveRequest, user: UserQuery = None) -> Response:
    """Rename a file or folder on the same file system."""
    await who.in_session(session, lambda each: files(each, user).move(body.path, body.to))
    return Response(status_code=204)


@router.delete("", status_code=204)
async def remove(
    who: From,
    session: Ref,
    path: FilePath,
    user: UserQuery = None,
    recursive: bool = False,
    missing_ok: bool = False,
) -> Response:
    """Remove a file or an empty folder; with `recursive` a folder with its contents."""
    await who.in_session(
        session, lambda each: files(each, user).remove(path, recursive=recursive, missing_ok=missing_ok)
    )
    return Response(status_code=204)


@router.get(
    "/tree",
    response_class=StreamingResponse,
    responses={200: {"content": _TAR, "description": "A tar stream; no compression."}},
)
async def read_tree(
    who: From, session: Ref, path: FilePath, user: UserQuery = None, account: bool = False
) -> StreamingResponse:
    """Return a file, or a folder with its contents, as tar. Sockets and devices are left out.

    With `account` a last member of type `H` lists in JSON the omitted files, and the ones that changed in
    between.
    """
    await who.in_session(session, lambda each: files(each, user).stat(path))
    write = accounted_tar if account else SessionFiles.write_tar
    return written_body(
        who, "application/x-tar", lambda stream: write(files(who.session(session), user), path, stream)
    )


@router.put("/tree", openapi_extra={"requestBody": {"content": _TAR, "required": True}})
async def write_tree(who: From, session: Ref, path: FilePath, user: UserQuery = None) -> CopiedAnswer:
    """Unpack the body, a tar stream, compressed or not, into a folder."""
    with BodyPipe(who.request.stream()) as body:
        made = await body.feed_while(
            who.waits(lambda: files(who.session(session), user).read_tar(body.file(), path))
        )
    return CopiedAnswer.model_validate(made.as_dict())


def files(found: Session, user: str | None) -> SessionFiles:
    """Return the files of a session, with a user's rights."""
    return found.files if user is None else found.files.as_user(user)


def _to_be_read(found: Session, *, path: str, user: str | None) -> SessionFile:
    """Return the file at a path; errors are the same as for reading it."""
    try:
        place, file = located(files(found, user), path)
    except SessionFileError as error:
        raise type(error)(str(error).replace("cannot look at", "cannot read", 1), hint=error.hint) from None
    if file.kind != "file":
        raise SessionFileError(f"cannot read {plain(place)!r}: it is a {file.kind}, not a file")
    return file


def _part(found: Session, *, path: str, user: str | None, offset: int, length: int) -> bytes:
    return files(found, user).read(path, offset, length)


def _file(found: SessionFile) -> FileAnswer:
    return FileAnswer.model_validate(_shown(found.as_dict() | {"version": found.version}, "name", "target"))


def _shown(table: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return a table whose names fit into JSON: invalid UTF-8 in them is shown escaped."""
    for name in names:
        if table[name] is not None:
            table[name] = table[name].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return table


def _replaced(found: Session, *, path: str, old: str, new: str, user: str | None) -> int:
    return files(found, user).replace(path, old, new)


def _range(asked: re.Match[str] | None, size: int) -> tuple[int, int]:
    """Return the begin and end of the requested range."""
    if asked is None:
        return 0, size
    begin = int(asked[1])
    end = size if asked[2] is None else min(int(asked[2]) + 1, size)
    if begin >= size or end <= begin:
        raise HTTPException(416, f"the file has {size} bytes")
    return begin, end
