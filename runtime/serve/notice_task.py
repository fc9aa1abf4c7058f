"""The task of a server that notifies people of its sessions: it follows their events, and sends notices.

Without a subscription it follows nothing. Followers wait in the feeds of sessions, and neither wake a session
nor keep it awake. A subscription gets notices for as long as the right under which it was made is valid.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from holdfast.base.text import plain
from holdfast.errors import HoldfastError
from holdfast.runtime.api.session import Session
from holdfast.runtime.guest_rpc.event import Event
from holdfast.runtime.notices.notice_rules import FOLLOWED, NoticeRate, SentNotice, SessionNotices
from holdfast.runtime.notices.notice_sender import NoticeSender
from holdfast.runtime.notices.public_addresses import PublicAddresses
from holdfast.runtime.notices.subscriptions import Subscription, Subscriptions
from holdfast.runtime.serve.api_server import until_next, working
from holdfast.runtime.serve.call_threads import Parked
from holdfast.runtime.serve.calls.event_feeds import FollowedEvents, followed_events

if TYPE_CHECKING:
    from holdfast.runtime.access.access_keys import AccessKey
    from holdfast.runtime.serve.callers import Callers

ACTOR = "system:notices"
LOOK_SECONDS = 5.0
"""Between two looks for sessions and subscriptions that are new."""
MOST_FOLLOWED = 200
TICK_SECONDS = 0.5
"""Between two looks for questions that are not answered."""
_SEE = "sessions:read"
logger = logging.getLogger("holdfast.serve")


class NoticeTask:
    """Sends notices of all running sessions; its state belongs to the server's loop.

    Args:
        callers: of the server.
        allowed: networks to which notices can be sent besides public addresses.
    """

    def __init__(self, callers: Callers, allowed: Iterable[str] = ()) -> None:
        self._callers = callers
        self.addresses = PublicAddresses(allowed)
        self.subscriptions = Subscriptions(callers.home)
        self._sender: NoticeSender | None = None
        self._changed, self._follows = asyncio.Event(), asyncio.Event()
        self._following: dict[str, tuple[SessionNotices, asyncio.Task[None]]] = {}
        self._told: list[Subscription] = []
        self._rate = NoticeRate()
        callers.notices = self

    @property
    def count(self) -> int:
        """How many sessions are followed."""
        return len(self._following)

    def look(self) -> None:
        """Read subscriptions and sessions again now; call it on the loop."""
        self._changed.set()

    def holder(self, key: AccessKey | None) -> str:
        """Return the right under which a caller subscribes: its key's id, or the stamp of the token."""
        return self._stamp() if key is None else key.id

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send notices while the block runs."""
        self._sender = NoticeSender(self.subscriptions, self.addresses)
        try:
            async with working(self._live()), working(self._tick()):
                yield
        finally:
            self._leave(self._following)
            await self._sender.close()
            self.subscriptions.close()

    async def try_out(self, to: Subscription) -> str:
        """Send one notice, and return why it did not arrive; empty if it did."""
        notice = SentNotice("test", "", "", "Holdfast", "This is a trial: notices arrive here.", time.time())
        sender = NoticeSender(self.subscriptions, self.addresses, pauses=())
        try:
            return await sender.send(to, notice, self._link(""))
        finally:
            await sender.close()

    async def _live(self) -> None:
        while True:
            self._changed.clear()
            try:
                await self._round()
            except HoldfastError as error:
                logger.error("cannot look for notices: %s", plain(str(error), 400))
            with suppress(TimeoutError):
                async with asyncio.timeout(until_next(LOOK_SECONDS)):
                    await self._changed.wait()

    async def _round(self) -> None:
        """Follow the sessions that subscriptions are for."""
        self._told = await self._callers.brief.run(self._valid) if self.subscriptions.are_made else []
        chosen = {each.session for each in self._told}
        self._leave([each for each in self._following if "" not in chosen and each not in chosen])
        if not chosen:
            return
        rows = await self._callers.session_rows(ACTOR)
        for row in rows:
            wanted = row.state == "running" and ("" in chosen or row.id in chosen)
            if wanted and row.id not in self._following and self.count < MOST_FOLLOWED:
                notices = SessionNotices(row.id, row.name)
                self._following[row.id] = notices, asyncio.create_task(self._follow(row.id, notices))
                self._follows.set()

    def _leave(self, sessions: Iterable[str]) -> None:
        for id_ in list(sessions):
            self._following.pop(id_)[1].cancel()
        self._unfollowed()

    def _unfollowed(self) -> None:
        if not self._following:
            self._follows.clear()

    def _valid(self) -> list[Subscription]:
        """Return the subscriptions with a valid right."""
        found = [each for each in self.subscriptions.list() if not each.is_off]
        if not found:
            return []
        now, stamp = time.time(), self._stamp()
        keys = {each.id: each for each in self._callers.keys.list() if each.is_valid(now)}
        return [each for each in found if _is_allowed(each, keys.get(each.holder), stamp)]

    async def _follow(self, id_: str, notices: SessionNotices) -> None:
        """Follow one session until it ends, or cannot be followed; a later round tries again."""
        loop, since = asyncio.get_running_loop(), time.time()
        patience = self._callers.patience()
        following: list[FollowedEvents] = []

        def heard(event: Event) -> None:
            if event.kind == "session_ended" or event.at.timestamp() >= since - 1:
                loop.call_soon_threadsafe(self._hear, notices, event)

        def work() -> Parked | None:
            if not following:
                session = self._callers.controller(ACTOR).session(id_)
                following.append(followed_events(session, _newest(session), FOLLOWED))
            return following[0].proceed(patience, heard)

        try:
            await self._callers.waiting.run(work)
        except HoldfastError as error:
            logger.info("session %s is not followed for notices now: %s", id_, plain(str(error), 200))
            await asyncio.sleep(LOOK_SECONDS)
        finally:
            patience.end()
            self._callers.done(patience)
            if (known := self._following.get(id_)) is not None and known[0] is notices:
                del self._following[id_]
                self._unfollowed()

    def _hear(self, notices: SessionNotices, event: Event) -> None:
        now = time.time()
        found = notices.hear(event.kind, event.data, event.at.timestamp(), now)
        if found is not None:
            self._tell(found, now)

    async def _tick(self) -> None:
        while True:
            await self._follows.wait()
            await asyncio.sleep(TICK_SECONDS)
            now = time.time()
            for notices, _ in list(self._following.values()):
                for notice in list(notices.due(now)) if notices.holds else ():
                    self._tell(notice, now)

    def _tell(self, notice: SentNotice, now: float) -> None:
        assert self._sender is not None
        for each in self._told:
            if each.wish.takes(notice, now) and self._rate.allows(each.id, notice.session_id, now):
                self._sender.send(each, notice, self._link(notice.session))

    def _link(self, session: str) -> str:
        url = self._callers.serving.url if self._callers.serving else ""
        return f"{url}/#/s/{quote(session, safe='')}" if session else f"{url}/"

    def _stamp(self) -> str:
        return f"token {self._callers.serving.stamp}" if self._callers.serving else "token"


def _is_allowed(found: Subscription, key: AccessKey | None, stamp: str) -> bool:
    if found.holder == stamp:
        return True
    return key is not None and _SEE in key.scopes and key.session in ("", found.session)


def _newest(session: Session) -> int:
    """Return the number of the newest entry that is known: earlier entries are left out."""
    return max((each.seq for each in session.journal(limit=1)), default=0)
