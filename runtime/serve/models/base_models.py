"""The forms that requests and answers have in common: names, durations, errors."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Path, Query
from pydantic import BaseModel, ConfigDict, Field, model_validator

from holdfast.base import ids
from holdfast.runtime.guest_rpc.call_arguments import FOREVER

LONGEST_REASON = 500
LONGEST_KEY = 200

TEXT = r"^[^\x00]*$"
"""Texts without NUL."""


class RequestBody(BaseModel):
    """A body of a request: exactly these fields, of exactly these types."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, given: Any) -> Any:
        """Read 2.0 as 2: JSON has one kind of number, and some clients write all of them with a point."""
        if not isinstance(given, dict):
            return given
        return {
            name: int(value) if isinstance(value, float) and value.is_integer() else value
            for name, value in given.items()
        }


class AnswerBody(BaseModel):
    """A body of an answer."""

    model_config = ConfigDict(extra="forbid")


class ErrorBody(AnswerBody):
    """An error: a stable code, a line for people, and what to do about it."""

    code: str
    message: str
    hint: str = ""
    findings: list[dict[str, Any]] | None = None


class ErrorAnswer(AnswerBody):
    """The answer to a request that failed."""

    error: ErrorBody


Seconds = Annotated[float, Field(gt=0, lt=FOREVER)]
Patient = Annotated[float, Field(ge=0, lt=FOREVER)]
Reason = Annotated[str, Field(min_length=1, max_length=LONGEST_REASON, pattern=TEXT)]
Name = Annotated[str, Field(pattern=f"^{ids.NAME}$")]
Side = Annotated[int, Field(ge=1, le=1000)]
Part = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]
"""The name of a shell or kernel."""
Ref = Annotated[str, Path(pattern=f"^{ids.NAME}$", description="A name, an id, or its first digits.")]
Id = Annotated[str, Path(pattern=r"^[A-Za-z0-9_.-]{1,80}$")]
PartRef = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]
PartQuery = Annotated[str, Query(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]
Offset = Annotated[int, Query(ge=0, lt=2**53)]
PatienceQuery = Annotated[float | None, Query(ge=0, lt=FOREVER)]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=LONGEST_KEY,
        pattern=r"^[\x21-\x7e]+$",
        description="Under the same key it runs once; later requests join it, or get what was recorded.",
    ),
]
