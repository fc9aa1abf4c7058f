"""Paths of shared links: others see a session in their browser by one, until it ends or is revoked."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import Path

from holdfast.errors import ServerUnavailable
from holdfast.runtime.access import shared_links
from holdfast.runtime.access.shared_links import SharedLink
from holdfast.runtime.api.session import Session
from holdfast.runtime.serve.answer_forms import ERRORS
from holdfast.runtime.serve.callers import From
from holdfast.runtime.serve.models.answer_models import SharedLinkAnswer
from holdfast.runtime.serve.models.base_models import Ref
from holdfast.runtime.serve.models.session_models import ShareRequest
from holdfast.runtime.serve.routes.api_router import api_router

router = api_router(prefix="/v1/sessions/{session}/links", tags=["sharing"], responses=ERRORS)
LinkName = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9._-]{0,31}$")]


@router.get("")
async def shares(who: From, session: Ref) -> list[SharedLinkAnswer]:
    """Return the shared links of a session, the oldest first, without the text that opens them."""
    found = await who.in_session(session, lambda found: shared_links.links(who.all.keys, found.id))
    return [_answered(each) for each in found]


@router.post("", status_code=201)
async def share(who: From, session: Ref, body: ShareRequest) -> SharedLinkAnswer:
    """Return a link by which its holders watch a session in their browser, or type as well.

    It lasts no longer than the caller's access key.
    """
    base, key, server = who.request.url, who.access_key, who.all.serving
    if server is not None and server.url.startswith("unix:"):
        raise ServerUnavailable(
            "cannot share: browsers do not reach a server at a unix socket", hint="`holdfast serve` on a port"
        )
    seconds = float(body.seconds)
    if key is not None and key.expires_at:
        seconds = max(1.0, min(seconds, key.expires_at - time.time()))

    def work(found: Session) -> SharedLink:
        return shared_links.share(
            who.holdfast().context,
            who.all.keys,
            found.row,
            f"{base.scheme}://{base.netloc}",
            typing=body.typing,
            lasting=seconds,
        )

    return _answered(await who.in_session(session, work))


@router.delete("/{link}")
async def revoke_share(who: From, session: Ref, link: LinkName) -> SharedLinkAnswer:
    """End a link: the pages that it opened are cut within a second."""

    def work(found: Session) -> SharedLink:
        return shared_links.revoke(who.holdfast().context, who.all.keys, link, found.id)

    return _answered(await who.in_session(session, work))


def _answered(found: SharedLink) -> SharedLinkAnswer:
    return SharedLinkAnswer(**found.as_dict())
