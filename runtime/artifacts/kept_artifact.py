"""One artifact that a home keeps: where it came from, its content by digest, and its way into a file.

On that way it is checked as it comes, and the file is there only when it is whole.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from holdfast.base import private_files
from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.task.task_record import Digest, EntryReference, Moment, Text

LARGEST = 1 << 30
"""Bytes of one artifact."""


class KeptArtifact(BaseModel):
    """An artifact as it was registered. Its name is unique within its session.

    `entry` is the journal entry of the command that made it, `snapshot` the last checkpoint before it was
    registered, `bytes` its size.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Text
    session_id: Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]
    session: Text
    path: Text
    digest: Digest
    bytes: Annotated[int, Field(ge=0, le=LARGEST)]
    at: Moment
    by: Text
    entry: EntryReference | None = None
    snapshot: Text | None = None

    @property
    def key(self) -> str:
        """Its identity, as the name of a file."""
        return f"{self.session_id}-{hashlib.sha256(self.name.encode()).hexdigest()[:24]}"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        return self.model_dump(mode="json")


class SavedArtifact:
    """A file that replaces the file at `place` at the end of a `with` block, if the content is the
    artifact's.

    Args:
        artifact: what is saved.
        to: a file, or a folder that is there: then the file has the last part of the artifact's name.

    Raises:
        InvalidArgument: it cannot be written there.
        StoreError: the content is damaged; nothing was replaced.
    """

    def __init__(self, artifact: KeptArtifact, to: Path | str) -> None:
        self._artifact, self._digest = artifact, hashlib.sha256()
        place = Path(to)
        if place.is_dir():
            place /= artifact.name.rstrip("/").rpartition("/")[2] or "artifact"
        if place.is_dir():
            raise InvalidArgument(f"cannot save artifact to {place}: it is a folder")
        self.place = place
        self._part = place.with_name(f".{place.name[:200]}.{os.getpid()}.part")

    def __enter__(self) -> Self:
        try:
            self._part.unlink(missing_ok=True)
            self._file = private_files.create(self._part, new=True)
        except OSError as error:
            raise self._refused(error) from error
        return self

    def write(self, data: bytes) -> None:
        """Accept the next part of the content."""
        self._digest.update(data)
        try:
            self._file.write(data)
        except OSError as error:
            raise self._refused(error) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        try:
            self._file.close()
            if kind is None:
                self._check()
                self._part.replace(self.place)
        except StoreError:
            raise
        except OSError as failure:
            raise self._refused(failure) from failure
        finally:
            self._part.unlink(missing_ok=True)

    def _check(self) -> None:
        if f"sha256:{self._digest.hexdigest()}" != self._artifact.digest:
            raise StoreError(f"cannot save artifact '{self._artifact.name}': its content is damaged")

    def _refused(self, error: OSError) -> InvalidArgument:
        why = (error.strerror or str(error)).lower()
        return InvalidArgument(f"cannot save artifact to {self.place}: {why}")
