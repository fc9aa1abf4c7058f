"""Files of sessions."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field

from holdfast.runtime.files.session_file import Kind
from holdfast.runtime.serve.models.base_models import TEXT, AnswerBody, RequestBody

FilePath = Annotated[
    str,
    Query(
        min_length=1,
        max_length=4096,
        pattern=TEXT,
        description="Relative paths begin in the shell's directory.",
    ),
]
UserQuery = Annotated[
    str | None,
    Query(pattern=r"^([a-z_][a-z0-9_-]{0,31}|\d{1,10})$", description="Act with the rights of this user."),
]
PathField = Annotated[str, Field(min_length=1, max_length=4096, pattern=TEXT)]


class FileAnswer(AnswerBody):
    """What is at a path. `mode` is octal; `version` differs when the content may have changed."""

    name: str
    kind: Kind
    size: int
    mode: str
    mtime_ns: int
    uid: int
    gid: int
    target: str | None
    version: str


class FolderRequest(RequestBody):
    """A folder to be made."""

    path: PathField
    parents: bool = False


class MoveRequest(RequestBody):
    """A file or folder, and its new path on the same file system."""

    path: PathField
    to: PathField


class AddressRequest(RequestBody):
    """A file that others are to read or write by an address, without a token, for a time in seconds."""

    path: PathField
    operation: Literal["read", "write"] = "read"
    seconds: Annotated[int, Field(ge=1, le=30 * 86400)] = 3600


class AddressAnswer(AnswerBody):
    """A signed address. `expires_at` is in seconds since 1970."""

    url: str
    expires_at: int


class WrittenAnswer(AnswerBody):
    """How many bytes a file has now."""

    size: int


class CopiedAnswer(AnswerBody):
    """What was unpacked: counts, and what was left out, by path."""

    files: int
    folders: int
    links: int
    bytes: int
    left_out: dict[str, str]
    changed: list[str]
