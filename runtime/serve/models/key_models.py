"""Bodies of requests and answers about access keys and the audit trail."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from holdfast.runtime.access.access_keys import AccessKey
from holdfast.runtime.access.audit_trail import AuditedRequest
from holdfast.runtime.serve.models.base_models import AnswerBody, Name, RequestBody, answer_of

KEY_NAME = r"^[a-z0-9][a-z0-9._-]{0,31}$"
MOST_SECONDS = 10 * 366 * 86_400


class NewKeyRequest(RequestBody):
    """A key for an agent, or a `person`, with some scopes or a role, for some `seconds` or without an end.

    `form` is `e2b` for clients of E2B. `session` is the only session that it is for.
    """

    name: Annotated[str, Field(pattern=KEY_NAME)]
    scopes: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=40)]], Field(min_length=1, max_length=40)
    ]
    person: bool = False
    session: Name | None = None
    seconds: Annotated[int, Field(ge=1, le=MOST_SECONDS)] | None = None
    form: Literal["hf", "e2b"] = "hf"


@answer_of(AccessKey, without=("is_of_e2b", "visits"))
class AccessKeyAnswer(AnswerBody):
    """A key without its secret. Times are in Unix seconds; null is never."""

    scopes: list[str]
    session: str | None
    form: Literal["hf", "e2b"]
    expires_at: float | None
    revoked_at: float | None
    used_at: float | None
    state: Literal["valid", "expired", "revoked"]


class NewKeyAnswer(AccessKeyAnswer):
    """A key with its text, which is not shown a second time."""

    key: str


@answer_of(AuditedRequest)
class AuditedRequestAnswer(AnswerBody):
    """A row of the audit trail: one request, and the status of its answer. `at` is in Unix seconds."""
