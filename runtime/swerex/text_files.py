"""Text files of a session, read and written as `Path.read_text` and `Path.write_text` do."""

from __future__ import annotations

import io

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_files import SessionFiles
from holdfast.runtime.swerex.runtime_bodies import FileToRead, FileToWrite

MOST = 64 << 20
"""Bytes of a file that an answer may have."""


def read(found: Session, asked: FileToRead) -> str:
    """Return the text of a file.

    Raises:
        InvalidArgument: it is too large, or not in that encoding.
        SessionFileError: it cannot be read.
    """
    data = found.files.read(asked.path, 0, MOST + 1)
    if len(data) > MOST:
        raise InvalidArgument(
            f"cannot read {asked.path!r} at once: it has more than {MOST >> 20} MiB", hint="read parts of it"
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


def write(found: Session, asked: FileToWrite) -> None:
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
