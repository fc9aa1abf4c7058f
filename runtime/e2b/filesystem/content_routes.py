"""The paths by which files come and go: any size, with a token or a signed address."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Header, Query
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from holdfast.errors import InvalidArgument, SessionFileError
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_files import located
from holdfast.runtime.e2b.filesystem import download_bodies
from holdfast.runtime.e2b.filesystem.entry_info import attributes_of
from holdfast.runtime.e2b.filesystem.multipart_files import boundary_of
from holdfast.runtime.e2b.filesystem.upload_bodies import content_of, store_files
from holdfast.runtime.e2b.sandbox_caller import SandboxCaller, sandbox_caller
from holdfast.runtime.e2b.sandbox_facts import SandboxFacts
from holdfast.runtime.guest.files.file_facts import LONGEST_ATTRIBUTES, MOST_ATTRIBUTES, checked_attributes
from holdfast.runtime.serve.body_pipe import BodyPipe
from holdfast.runtime.serve.models.file_models import FilePath
from holdfast.runtime.serve.routes import file_routes

router = APIRouter(prefix="/files")
From = Annotated[SandboxCaller, Depends(sandbox_caller)]
Username = Annotated[str | None, Query(pattern=r"^([a-z_][a-z0-9_-]{0,31}|\d{1,10})?$")]
"""The only word on who acts here: a signature is for one user, and its holder may set any header."""
MARK = "x-metadata-"
RAW = "application/octet-stream"


@router.get("")
async def download(
    who: From,
    path: FilePath,
    username: Username = None,
    part: Annotated[str | None, Header(alias="Range", max_length=300)] = None,
    known: Annotated[str | None, Header(alias="If-None-Match", max_length=300)] = None,
) -> Response:
    """Return a file, or a range of it."""
    pack = part is None and download_bodies.is_packed(who.request.headers.get("accept-encoding", ""))
    try:
        place, user = await who.in_session(who.sandbox, lambda found: _place(who, found, path, username))
        answer = await file_routes.read(who, who.sandbox, place, user, part, known)
    except SessionFileError as error:
        if type(error) is not SessionFileError or not str(error).endswith("not a file"):
            raise
        raise InvalidArgument(str(error)) from None
    # Never shown by a browser: it would be a page of this server.
    answer.headers["Content-Disposition"] = (
        f"attachment; filename*=UTF-8''{quote(posixpath.basename(path), safe='', errors='replace')}"
    )
    answer.headers["Vary"] = "Accept-Encoding"
    if pack and isinstance(answer, StreamingResponse):
        del answer.headers["Content-Length"], answer.headers["Accept-Ranges"], answer.headers["ETag"]
        answer.headers["Content-Encoding"] = "gzip"
        content = aiter(answer.body_iterator)
        answer.body_iterator = download_bodies.packed(content, who.all.brief)
    return answer


@router.post("")
async def upload(
    who: From, path: Annotated[FilePath | None, Query()] = None, username: Username = None
) -> list[dict[str, Any]]:
    """Write the files of the body; each appears, or replaces another, when it is whole."""
    headers = who.request.headers
    metadata = metadata_in(headers)
    kind, coding = headers.get("content-type", ""), headers.get("content-encoding", "identity").lower()
    if coding not in ("identity", "gzip"):
        raise HTTPException(415, f"cannot unpack {coding[:40]!r}: a body is packed with gzip, or not")
    boundary = boundary_of(kind)
    if boundary is None and kind.partition(";")[0].strip().lower() != RAW:
        raise HTTPException(415, f"cannot write: the body must be multipart/form-data or {RAW}")
    if boundary is None and path is None:
        raise InvalidArgument("cannot write: the request names no path")
    with BodyPipe(who.request.stream()) as body:
        content = content_of(body, packed=coding == "gzip")
        store = partial(store_files, path=path, content=content, boundary=boundary, metadata=metadata)
        return await body.feed_while(who.waits(lambda: store(who.files(who.session(who.sandbox), username))))


def _place(who: SandboxCaller, found: Session, path: str, username: str | None) -> tuple[str, str | None]:
    """Return where a file is that is to be read, and with whose rights."""
    facts = SandboxFacts.of(found.row)
    if facts is None or facts.home is None:
        return path, who.own_user(username)
    try:
        return located(who.files(found, username), path)[0], who.own_user(username)
    except SessionFileError as error:
        raise type(error)(str(error).replace("cannot look at", "cannot read", 1), hint=error.hint) from None


def metadata_in(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata of a request.  Pure.

    Raises:
        InvalidArgument: there is too much, or something that no file can keep.
    """
    found = {name.removeprefix(MARK): text for name, text in headers.items() if name.startswith(MARK)}
    if checked_attributes(attributes_of(found)) is None or "" in found:
        raise InvalidArgument(
            f"cannot keep the metadata: a file has {MOST_ATTRIBUTES} keys, values of printable ASCII,"
            f" and {LONGEST_ATTRIBUTES} bytes of both",
            hint="keep more in a file of its own",
        )
    if "" in found.values():  # the engine's layers cannot say it
        raise InvalidArgument(
            "cannot keep metadata with an empty value: a capture would lose it", hint="leave out the key"
        )
    return found
