"""The body of an upload in its thread: unpacked while it arrives, and written file by file."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from typing import IO, Any

from holdfast.base.bounded_tar import PlainStream
from holdfast.errors import InvalidArgument, SessionFileError
from holdfast.runtime.api.session_files import SessionFiles, located, write_with_attributes
from holdfast.runtime.e2b.filesystem.entry_info import attributes_of, clean, shown, written
from holdfast.runtime.e2b.filesystem.folder_listing import is_folder, make_above
from holdfast.runtime.e2b.filesystem.multipart_files import UploadedFile, files_in
from holdfast.runtime.serve.streamed_bodies import BodyPipe

PIECE = 1 << 20
"""Bytes that are unpacked, and written, at once."""
LONGEST_PATH = 4096


def content_of(body: BodyPipe, *, packed: bool) -> Iterator[bytes]:
    """Yield what was sent, unpacked if it was packed with gzip.

    Raises:
        InvalidArgument: it is no gzip, or not whole.
    """
    return _unpacked(body.file()) if packed else body.parts()


def _unpacked(packed: IO[bytes]) -> Iterator[bytes]:
    try:
        plain = PlainStream(packed)
        if not plain.packed:
            raise tarfile.ReadError("it begins in another form")
        while data := plain.read(PIECE):
            yield data
    except tarfile.TarError as error:
        raise InvalidArgument(f"cannot unpack the body: it is no whole gzip stream ({error})") from None


def store_files(
    files: SessionFiles,
    path: str | None,
    content: Iterator[bytes],
    boundary: bytes | None,
    metadata: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Write what was sent, and return a description of each file.

    Without a boundary the content is one file. With one it has files, each with its path as its name, or one
    file for the path of the request. Each gets the metadata.

    Raises:
        InvalidArgument: a file has no path, or there is none.
        SessionFileError: one cannot be written; those before it were.
    """
    if boundary is None:
        sent: Iterator[UploadedFile] = iter([UploadedFile("", content)])
    else:
        sent = files_in(content, boundary)
    stored = [_store(files, path, each, number, metadata) for number, each in enumerate(sent)]
    if not stored:
        raise InvalidArgument("cannot write: the body has no field `file`")
    return stored


def _store(
    files: SessionFiles, path: str | None, sent: UploadedFile, number: int, metadata: Mapping[str, str]
) -> dict[str, Any]:
    if path is not None and number:
        raise InvalidArgument(f"cannot write several files to {shown(path)}", hint="send them without `path`")
    to = sent.filename if path is None else path
    if not to or len(to) > LONGEST_PATH or "\0" in to:
        raise InvalidArgument("cannot write a file without a path, or with one of more than 4096 characters")
    make_above(files, to)
    try:
        if metadata:
            write_with_attributes(files, to, gathered(sent.content), attributes_of(metadata))
        else:
            files.write_parts(to, gathered(sent.content))
    except SessionFileError:
        if is_folder(files, to):
            raise InvalidArgument(f"cannot write {shown(to)}: a directory is there") from None
        raise
    place, found = located(files, to, attributes=bool(metadata))
    if not attributes_of(metadata).items() <= found.attributes.items():
        raise InvalidArgument(
            f"cannot keep metadata with {shown(to)}: the sandbox is of an older version, which keeps none",
            hint="the file was written",
        )
    return written(clean(place), metadata)


def gathered(content: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in larger pieces: each is a request to the session, however small it is."""
    held = bytearray()
    for piece in content:
        held += piece
        if len(held) >= PIECE:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)
