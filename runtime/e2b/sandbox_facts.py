"""What a client said of a sandbox when it made it, as it is kept with the session.  Pure.

Sessions that were made otherwise have none of it: they have no end, whoever connects to them.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.runtime.store.rows import SessionRow

DETAIL = "sandbox"
"""Its key among the details of a session."""


class SandboxFacts(BaseModel):
    """What is kept. `ends_at` is in seconds since 1970, None for no end; `env` is for every process."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    template: str = "base"
    metadata: dict[str, str] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)
    ends_at: float | None = None
    at_end: Literal["kill", "pause"] = "kill"
    auto_resume: bool = False

    @classmethod
    def of(cls, row: SessionRow) -> SandboxFacts | None:
        """Return the facts of a session; None if no client of this wire made it."""
        kept: Any = row.details.get(DETAIL)
        try:
            return cls.model_validate(kept)
        except ValidationError:
            return None
