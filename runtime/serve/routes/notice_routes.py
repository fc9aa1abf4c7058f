"""Paths of notices: subscribe, list, try, unsubscribe. An actor sees its own subscriptions."""

from __future__ import annotations

from typing import Annotated, get_args

from fastapi import Path
from starlette.responses import Response

from holdfast.base import ids
from holdfast.errors import InvalidArgument
from holdfast.runtime.notices import subscriptions
from holdfast.runtime.notices.push_messages import PushKeys
from holdfast.runtime.notices.subscriptions import Subscription
from holdfast.runtime.serve.answer_forms import ERRORS
from holdfast.runtime.serve.callers import ApiCaller, From
from holdfast.runtime.serve.models.notice_models import (
    Kind,
    PushKeyAnswer,
    SubscribeRequest,
    SubscriptionAnswer,
    TriedAnswer,
)
from holdfast.runtime.serve.notice_task import NoticeTask
from holdfast.runtime.serve.routes.api_router import api_router

router = api_router(prefix="/v1/notices", tags=["notices"], responses=ERRORS)
SubscriptionId = Annotated[str, Path(pattern=f"^{ids.ID}$")]


@router.get("")
async def list_subscriptions(who: From) -> list[SubscriptionAnswer]:
    """List the subscriptions of the caller's actor, the oldest first."""
    task = _task(who)
    return await who.brief(lambda _: [_answered(each) for each in task.subscriptions.list(who.actor)])


@router.get("/push-key")
async def push_key(who: From) -> PushKeyAnswer:
    """Return the key that a browser needs to subscribe to push."""
    task = _task(who)
    return await who.brief(lambda _: PushKeyAnswer(key=task.subscriptions.signer().public))


@router.post("", status_code=201)
async def subscribe(who: From, body: SubscribeRequest) -> SubscriptionAnswer:
    """Notify the caller's actor of sessions: of programs that wait, of ends, failures and deaths."""
    task, by_push = _task(who), body.endpoint is not None
    if by_push == (body.webhook is not None) or by_push != (body.keys is not None):
        raise InvalidArgument("cannot subscribe: give `webhook`, or `endpoint` and `keys`")
    url = task.addresses.check(body.webhook or body.endpoint or "")
    secret = subscriptions.new_secret()
    if body.keys is not None:
        PushKeys.read(body.keys.p256dh, body.keys.auth)
        secret = body.keys.model_dump_json()
    holder = task.holder(who.access_key)
    made = await who.brief(
        lambda hf: task.subscriptions.add(
            who.actor,
            holder,
            "push" if body.keys else "webhook",
            url,
            secret,
            session=hf.session(body.session).id if body.session else "",
            kinds=tuple(each for each in get_args(Kind) if body.kinds is None or each in body.kinds),
            after=body.after,
            quiet=body.quiet,
        )
    )
    task.look()
    answer = _answered(made)
    return answer if body.keys else answer.model_copy(update={"secret": secret})


@router.delete("/{subscription}", status_code=204)
async def unsubscribe(who: From, subscription: SubscriptionId) -> Response:
    """Remove a subscription of the caller's actor."""
    task = _task(who)
    await who.brief(lambda _: task.subscriptions.remove(task.subscriptions.find(subscription, who.actor).id))
    task.look()
    return Response(status_code=204)


@router.post("/{subscription}/try")
async def try_out(who: From, subscription: SubscriptionId) -> TriedAnswer:
    """Send a notice that says it is a trial, once, and return how that ended."""
    task = _task(who)
    found = await who.brief(lambda _: task.subscriptions.find(subscription, who.actor))
    return TriedAnswer(trouble=await task.try_out(found))


def _task(who: ApiCaller) -> NoticeTask:
    """Return the task of this server that tells notices.

    Raises:
        InvalidArgument: the server does not have one.
    """
    if isinstance(who.all.notices, NoticeTask):
        return who.all.notices
    raise InvalidArgument("cannot subscribe: this server does not send notices")


def _answered(found: Subscription) -> SubscriptionAnswer:
    return SubscriptionAnswer(
        id=found.id,
        way=found.way,
        url=found.url,
        session=found.session or None,
        kinds=[each for each in get_args(Kind) if each in found.kinds],
        after=found.after,
        quiet=found.quiet,
        created_at=found.created_at,
        told_at=found.told_at or None,
        failures=found.failures,
        trouble=found.trouble,
    )
