"""Files of sessions."""

from __future__ import annotations

import base64
from typing import Annotated, Literal, Self

from fastapi import Query
from pydantic import Field, model_validator

from holdfast.runtime.serve.models.base_models import TEXT, RequestBody

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


class FolderRequest(RequestBody):
    """A folder to be made."""

    path: PathField
    parents: bool = False


class MoveRequest(RequestBody):
    """A file or folder, and its new path on the same file system."""

    path: PathField
    to: PathField


class ModeRequest(RequestBody):
    """The permissions of a file or folder, in octal."""

    path: PathField
    mode: Annotated[str, Field(pattern="^[0-7]{3,4}$")]


class ReplaceRequest(RequestBody):
    """A text to replace in a file, wherever it occurs, and its replacement."""

    path: PathField
    old: Annotated[str, Field(min_length=1, max_length=1 << 20)]
    new: Annotated[str, Field(max_length=1 << 20)]


class WholeFile(RequestBody):
    """A file and its content, as text or as base64."""

    path: PathField
    text: str | None = None
    base64: Annotated[str, Field(pattern="^[A-Za-z0-9+/]*={0,2}$")] | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.text is None) == (self.base64 is None):
            raise ValueError("a file has either text or base64")
        if self.base64 is not None and len(self.base64) % 4:
            raise ValueError("base64 comes in groups of four")
        return self

    @property
    def content(self) -> bytes | str:
        """The content to write."""
        return base64.b64decode(self.base64) if self.base64 is not None else str(self.text)


class FilesRequest(RequestBody):
    """Several files to be written in order, each when complete."""

    files: Annotated[list[WholeFile], Field(min_length=1, max_length=1000)]


class AddressRequest(RequestBody):
    """A file that others can read or write by an address, without a token, for a time in seconds."""

    path: PathField
    operation: Literal["read", "write"] = "read"
    seconds: Annotated[int, Field(ge=1, le=30 * 86400)] = 3600
