"""Paths of access keys and of the audit trail: for the admins of a team who are not at its machine."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import Path, Query

from holdfast.base import ids
from holdfast.runtime.access import weaker_keys
from holdfast.runtime.access.access_keys import LINK, AccessKey
from holdfast.runtime.access.audit_trail import AuditTrail
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.serve.answer_forms import ERRORS
from holdfast.runtime.serve.callers import From
from holdfast.runtime.serve.models.key_models import (
    AccessKeyAnswer,
    AuditedRequestAnswer,
    NewKeyAnswer,
    NewKeyRequest,
)
from holdfast.runtime.serve.routes.api_router import api_router

MOST_ROWS = 10_000
router = api_router(prefix="/v1/keys", tags=["keys"], responses=ERRORS)
trail = api_router(prefix="/v1/audit", tags=["audit"], responses=ERRORS)
KeyId = Annotated[str, Path(pattern=f"^{ids.ID}$")]


@router.get("")
async def list_keys(who: From) -> list[AccessKeyAnswer]:
    """List access keys, the oldest first, without the texts that open them."""
    return await who.brief(lambda _: [_answered(each) for each in who.all.keys.list() if each.kind != LINK])


@router.post("", status_code=201)
async def make_key(who: From, body: NewKeyRequest) -> NewKeyAnswer:
    """Make an access key. The keys that a key makes do no more, end no later, and begin with its name."""

    def work(holdfast: Holdfast) -> tuple[AccessKey, str]:
        return weaker_keys.make(
            who.all.keys,
            who.access_key,
            body.name,
            body.scopes,
            person=body.person,
            session=holdfast.session(body.session).id if body.session else "",
            seconds=body.seconds,
            of_e2b=body.form == "e2b",
        )

    made, text = await who.brief(work)
    return NewKeyAnswer(**_fields(made), key=text)


@router.delete("/{key}")
async def revoke_key(who: From, key: KeyId) -> AccessKeyAnswer:
    """Revoke an access key, and those that it made: their open connections are cut within a second."""
    return _answered(await who.brief(lambda _: weaker_keys.revoke(who.all.keys, who.access_key, key)))


@trail.get("")
async def list_requests(
    who: From,
    since: Annotated[float, Query(ge=0, le=1e11, allow_inf_nan=False)] = 0.0,
    actor: Annotated[str, Query(max_length=80)] = "",
    session: Annotated[str, Query(max_length=80)] = "",
    most: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 1000,
) -> list[AuditedRequestAnswer]:
    """List the latest requests of the audit trail in their order: since a time, of an actor, of a session."""

    def work(holdfast: Holdfast) -> list[AuditedRequestAnswer]:
        kept = AuditTrail(holdfast.home.root)
        try:
            found = kept.rows(since=since, actor=actor, session=session, most=most)
        finally:
            kept.close()
        return [AuditedRequestAnswer(**each.as_dict()) for each in found]

    return await who.brief(work)


def _answered(key: AccessKey) -> AccessKeyAnswer:
    return AccessKeyAnswer(**_fields(key))


def _fields(key: AccessKey) -> dict[str, Any]:
    return {**key.as_dict(), "state": key.state(time.time())}
