"""Bodies of requests and answers about notices."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from holdfast.runtime.serve.models.base_models import AnswerBody, Name, RequestBody

Kind = Literal["waiting", "ended", "failed", "died"]
Encoded = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,100}={0,2}$")]
Url = Annotated[str, Field(min_length=1, max_length=2000)]


class BrowserKeys(RequestBody):
    """The keys of a `PushSubscription`, in base64url."""

    p256dh: Encoded
    auth: Encoded


class SubscribeRequest(RequestBody):
    """A subscription: to a `webhook` or, with the keys of a browser, by push to its `endpoint`.

    `after` are the seconds that a command must have run for a notice of its end. `quiet` are hours without
    notices, such as `22:00-07:00 Europe/Berlin`.
    """

    webhook: Url | None = None
    endpoint: Url | None = None
    keys: BrowserKeys | None = None
    session: Name | None = None
    kinds: Annotated[list[Kind], Field(min_length=1, max_length=4)] | None = None
    after: Annotated[float, Field(ge=0, le=86_400)] = 60.0
    quiet: Annotated[str, Field(max_length=80)] = ""


class SubscriptionAnswer(AnswerBody):
    """A subscription. `secret` verifies a webhook's requests, and is shown once.

    `trouble` is why the last notice did not arrive; `failures` counts failed notices in a row.
    """

    id: str
    way: Literal["webhook", "push"]
    url: str
    session: str | None
    kinds: list[Kind]
    after: float
    quiet: str
    created_at: float
    told_at: float | None
    failures: int
    trouble: str
    secret: str | None = None


class PushKeyAnswer(AnswerBody):
    """The key by which browsers and push services know this server, for `applicationServerKey`."""

    key: str


class TriedAnswer(AnswerBody):
    """How the delivery of a notice ended: `trouble` is empty if it arrived."""

    trouble: str
