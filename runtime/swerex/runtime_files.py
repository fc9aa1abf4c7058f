"""Files of a session: texts as `Path.read_text` and `Path.write_text` take them, and uploads.

An upload is a form with a file or an archive, and the path that it is for. The path comes behind the
content, so the content is kept in a temporary file until then.
"""

from __future__ import annotations

import io
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import IO

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_files import SessionFiles, unzipped
from holdfast.runtime.http_doors.request_limits import CLOSE
from holdfast.runtime.swerex.runtime_bodies import FileToRead, FileToWrite

MOST_TEXT = 64 << 20
"""Bytes of a file that an answer may have."""


def read_text(found: Session, asked: FileToRead) -> str:
    """Return the text of a file.

    Raises:
        InvalidArgument: it is too large, or not in that encoding.
        SessionFileError: it cannot be read.
    """
    data = found.files.read(asked.path, 0, MOST_TEXT + 1)
    if len(data) > MOST_TEXT:
        raise InvalidArgument(
            f"cannot read {asked.path!r} at once: it has more than {MOST_TEXT >> 20} MiB",
            hint="read parts of it",
        )
    return decoded(data, asked.encoding, asked.errors)


def decoded(data: bytes, encoding: str | None, errors: str | None) -> str:
    """Return the text of a file's content, UTF-8 unless another encoding is named.  Pure.

    Raises:
        InvalidArgument: there is no such encoding, or it is another one.
    """
    try:
        return io.TextIOWrapper(io.BytesIO(data), encoding or "utf-8", errors or "strict").read()
    except (LookupError, ValueError, UnicodeError) as error:
        raise InvalidArgument(f"cannot decode the file: {plain(str(error), 200)}") from None


def write_text(found: Session, asked: FileToWrite) -> None:
    """Write a file, and make the folders above it.

    Raises:
        InvalidArgument: it has halves of characters.
        SessionFileError: it cannot be written.
    """
    try:  # what `read_file` made of other bytes is written as they were
        content = asked.content.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"cannot write {asked.path!r}: its content is not valid text ({error})"
        ) from None
    make_above(found.files, asked.path)
    found.files.write(asked.path, content)


def make_above(files: SessionFiles, path: str) -> None:
    """Make the folders above a path."""
    above = path.rstrip("/").rpartition("/")[0]
    if above not in ("", "~"):
        files.make_folder(above, parents=True)


MOST_UPLOAD = 4 << 30
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
            error.message
            if isinstance(error, MultiPartException)
            else "its boundary is missing, or it is cut short"
        )
        raise InvalidArgument(f"cannot read the upload: {why}") from None


def upload_in(form: FormData) -> UploadedContent:
    """Return what a form uploads.

    Raises:
        InvalidArgument: it lacks the file or its path.
    """
    file, path, packed = form.get("file"), form.get("target_path"), form.get("unzip", "false")
    if not isinstance(file, UploadFile):
        raise InvalidArgument("cannot read the upload: it does not contain a file")
    if not isinstance(path, str) or not path or len(path) > LONGEST_PATH or "\0" in path:
        raise InvalidArgument(f"cannot read the upload: target_path must have 1 to {LONGEST_PATH} characters")
    return UploadedContent(file.file, path, str(packed).lower() in ("true", "1", "yes", "on"))


def store_upload(found: Session, sent: UploadedContent) -> None:
    """Write the file, or unpack the archive, and make the folders above.

    Raises:
        InvalidArgument: the archive is refused.
        SessionFileError: something cannot be written.
    """
    sent.content.seek(0)
    if sent.packed:
        unzipped(found.files, sent.content, sent.path)
        return
    make_above(found.files, sent.path)
    found.files.write_parts(sent.path, iter(lambda: sent.content.read(PIECE), b""))


async def _limited(stream: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    size = 0
    async for part in stream:
        size += len(part)
        if size > MOST_UPLOAD:
            raise HTTPException(413, f"the body has more than {MOST_UPLOAD} bytes", CLOSE)
        yield part
