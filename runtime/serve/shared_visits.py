"""Visits by shared links: each is an entry of the session's journal, and an event."""

from __future__ import annotations

from holdfast.runtime.access import shared_links
from holdfast.runtime.access.access_keys import AccessKey
from holdfast.runtime.journal import host_events
from holdfast.runtime.serve.callers import Callers


async def tell(callers: Callers, link: AccessKey, actor: str) -> None:
    """Write that a link has opened the page of its session."""
    may = shared_links.may(link)

    def write() -> None:
        context = callers.controller(actor).context
        host_events.note(context, link.session, "visited", link=link.name, may=may)

    await callers.brief.run(write)
