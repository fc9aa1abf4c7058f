"""What a client uploads: a form with a file or an archive, and the path that it is for.

The path comes behind the content, so the content is kept in a temporary file until then.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import IO

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from holdfast.errors import InvalidArgument
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_files import unzipped
from holdfast.runtime.http_doors.body_limits import CLOSE
from holdfast.runtime.swerex import text_files

MOST = 4 << 30
"""Bytes of a body."""
PIECE = 1 << 20
LONGEST_PATH = 4096


@dataclass(frozen=True, slots=True)
class UploadedContent:
    """A file for a path of the session; `packed`: an archive for a folder there."""

    content: IO[bytes]
    path: str
    packed: bool


async def form_of(request: Request) -> FormData:
    """Read the form of a request, whose files the caller closes.

    Raises:
        InvalidArgument: it is not a form.
        HTTPException: it is too large.
    """
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise InvalidArgument("cannot read the upload: it is not a form (multipart/form-data)")
    try:
        return await MultiPartParser(
            request.headers, _limited(request.stream()), max_files=1, max_fields=10
        ).parse()
    except (MultiPartException, KeyError, ValueError) as error:
        why = (
            error.message if isinstance(error, MultiPartException) else "it has no boundary, or is cut short"
        )
        raise InvalidArgument(f"cannot read the upload: {why}") from None


def upload_in(form: FormData) -> UploadedContent:
    """Return what a form uploads.

    Raises:
        InvalidArgument: it lacks the file or its path.
    """
    file, path, packed = form.get("file"), form.get("target_path"), form.get("unzip", "false")
    if not isinstance(file, UploadFile):
        raise InvalidArgument("cannot read the upload: it has no file")
    if not isinstance(path, str) or not path or len(path) > LONGEST_PATH or "\0" in path:
        raise InvalidArgument(f"cannot read the upload: target_path must have 1 to {LONGEST_PATH} characters")
    return UploadedContent(file.file, path, str(packed).lower() in ("true", "1", "yes", "on"))


def store(found: Session, sent: UploadedContent) -> None:
    """Write the file, or unpack the archive, and make the folders above.

    Raises:
        InvalidArgument: the archive is refused.
        SessionFileError: something cannot be written.
    """
    sent.content.seek(0)
    if sent.packed:
        unzipped(found.files, sent.content, sent.path)
        return
    text_files.make_above(found.files, sent.path)
    found.files.write_parts(sent.path, iter(lambda: sent.content.read(PIECE), b""))


async def _limited(stream: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    size = 0
    async for part in stream:
        size += len(part)
        if size > MOST:
            raise HTTPException(413, f"the body has more than {MOST} bytes", CLOSE)
        yield part
