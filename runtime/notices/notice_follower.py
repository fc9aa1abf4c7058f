"""Follows sessions for one person at a terminal, and yields the notices that they are worth.

To follow neither wakes a session nor keeps it awake. Knows neither servers nor how a notice is shown.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.notices.notice_rules import FOLLOWED, NoticeRate, SentNotice, SessionNotices, Wish

if TYPE_CHECKING:
    from holdfast.runtime.api.controller import Holdfast
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.guest_rpc.event import Event

LOOK_SECONDS = 5.0
"""Between two looks at which sessions there are."""
TICK_SECONDS = 0.5
MOST_FOLLOWED = 100


class NoticeFollower:
    """Follows the sessions of a controller, in process or over a URL, with a thread for each.

    Args:
        holdfast: the controller.
        wish: the events that are worth a notice.
    """

    def __init__(self, holdfast: Holdfast, wish: Wish) -> None:
        self._holdfast, self._wish = holdfast, wish
        self._came: queue.Queue[tuple[str, Event | None]] = queue.Queue()
        self._followed: dict[str, SessionNotices] = {}
        self._patience = Patience()
        self._since = time.time()

    def notices(self) -> Iterator[SentNotice]:
        """Yield notices as they come, without end; leaving the iteration ends the threads."""
        look_at, rate = 0.0, NoticeRate()
        try:
            while True:
                if time.monotonic() >= look_at:
                    self._look()
                    look_at = time.monotonic() + LOOK_SECONDS
                now = time.time()
                for notice in self._heard():
                    if self._wish.takes(notice, now) and rate.allows("", notice.session_id, now):
                        yield notice
        finally:
            self._patience.end()

    def _heard(self) -> Iterator[SentNotice]:
        """Yield the notices of the events of a moment."""
        try:
            id_, event = self._came.get(timeout=TICK_SECONDS)
        except queue.Empty:
            id_, event = "", None
        if event is not None and id_ in self._followed:
            at = event.at.timestamp()
            found = self._followed[id_].hear(event.kind, event.data, at, time.time())
            if found is not None:
                yield found
        elif id_:
            self._followed.pop(id_, None)
        for each in list(self._followed.values()):
            yield from each.due(time.time())

    def _look(self) -> None:
        """Begin to follow sessions that run and are not followed yet."""
        for each in self._holdfast.sessions():
            wanted = self._wish.session in ("", each.id) and each.state == "running"
            if wanted and each.id not in self._followed and len(self._followed) < MOST_FOLLOWED:
                self._followed[each.id] = SessionNotices(each.id, each.name)
                threading.Thread(target=self._follow, args=(each,), daemon=True).start()

    def _follow(self, session: Session) -> None:
        try:
            for event in session.events(follow=True, kinds=FOLLOWED, patience=self._patience):
                if event.kind == "session_ended" or event.at.timestamp() >= self._since:
                    self._came.put((session.id, event))
        except HoldfastError:
            time.sleep(LOOK_SECONDS)  # it cannot be followed now; a later look tries again
        self._came.put((session.id, None))
