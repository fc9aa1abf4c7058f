"""One artifact that a home keeps: where it came from, and its content by digest.  Pure."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

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
        """What identifies it, as the name of a file."""
        return f"{self.session_id}-{hashlib.sha256(self.name.encode()).hexdigest()[:24]}"

    def as_dict(self) -> dict[str, Any]:
        """Return it for programs."""
        return self.model_dump(mode="json")
