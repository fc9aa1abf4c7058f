"""Followers of events that wait without a thread: one thread reads the events of a session for all of them.

A follower reads alone until nothing happens for a moment. Then it joins the feed of its session, if that
is not ahead of it, and is called again for each event. Whenever a feed ends, for whatever reason, its
followers read alone again, from where they are: so they learn the reason as they would without a feed.

It knows neither connections of clients nor how events are written.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator

from holdfast.errors import HoldfastError
from holdfast.runtime.api.events import EventPlace
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_insight import SessionInsight
from holdfast.runtime.egress.host_event_watch import KINDS as OF_HOST
from holdfast.runtime.guest_rpc.event import Event
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.serve.call_threads import Parked

REST_SECONDS = 2.0
"""Seconds without an event, after which a follower waits for the next without a thread."""
MOST_PENDING = 1000
"""Events that wait for a follower whose reader is slow; with more, it reads alone again."""
ENDED = "session_ended"


FeedReader = Callable[[EventPlace, Patience, float | None], Iterator[Event]]
"""Follows the events of one session from a place on, and moves the place along; to the end of the patience,
or until no event has come for some seconds."""
FeedKey = tuple[str, str, tuple[str, ...] | None]
"""The home, the session and the kinds of events."""


class Follower:
    """A waiter in a feed: its position, and the events from there on."""

    def __init__(self, place: EventPlace) -> None:
        self.place = place
        self._events: deque[tuple[Event, int]] = deque()
        self._parked: Parked | None = None
        self._alone = False
        self._lock = threading.Lock()

    def give(self, event: Event, number: int) -> None:
        """Note an event, by its number or its entry's, and wake the call; from the feed's thread."""
        with self._lock:
            if number <= (self.place.of_host if event.kind in OF_HOST else self.place.after):
                return  # it has seen that before it joined
            if len(self._events) >= MOST_PENDING:
                self._alone = True
            if not self._alone:
                self._events.append((event, number))
        self._wake()

    def leave_alone(self) -> None:
        """Let it read alone after the events that it has."""
        with self._lock:
            self._alone = True
        self._wake()

    def _wake(self) -> None:
        if (parked := self._parked) is not None:
            parked.wake()

    def taken(self) -> Iterator[Event]:
        """Yield the queued events, and move the place along."""
        while self._events:
            event, number = self._events.popleft()
            if event.kind in OF_HOST:
                self.place.of_host = max(self.place.of_host, number)
            else:
                self.place.after = max(self.place.after, number)
            yield event

    def parked(self) -> Parked | None:
        """Return a wait for the next event; None if there is one, or the feed has ended."""
        with self._lock:
            if self._events or self._alone:
                return None
            self._parked = Parked()
            return self._parked

    @property
    def is_alone(self) -> bool:
        """True once the feed has ended for it."""
        return self._alone and not self._events


class EventFeed:
    """The thread that reads for the followers of one session, from the place of the first."""

    def __init__(self, key: FeedKey, place: EventPlace, read: FeedReader) -> None:
        self._key, self._read = key, read
        self._place = EventPlace(place.after)
        self._place.of_host, self._place.began = place.of_host, place.began
        self._after, self._of_host = place.after, place.of_host
        self._followers: set[Follower] = set()
        self._lock = threading.Lock()
        self._patience = Patience()
        self._ended = False

    def begin(self) -> None:
        """Start its thread.

        Raises:
            RuntimeError: no more can be started.
        """
        threading.Thread(target=self._run, name="holdfast-feed", daemon=True).start()

    def join(self, follower: Follower) -> bool:
        """Add a follower; false if it lacks events that the feed has passed, or at its end."""
        place = follower.place
        with self._lock:
            if self._ended or place.after < self._after or place.of_host < self._of_host:
                return False
            self._followers.add(follower)
            return True

    def leave(self, follower: Follower) -> None:
        """Forget a follower; without any the feed ends."""
        with self._lock:
            self._followers.discard(follower)
            if self._followers:
                return
            self._ended = True
        _forget(self._key, self)
        self._patience.end()

    def _run(self) -> None:
        began = self._place.began
        try:
            for event in self._read(self._place, self._patience, None):
                if event.kind == ENDED or self._place.began != began:  # numbers begin again
                    return
                number = self._place.of_host if event.kind in OF_HOST else event.seq
                with self._lock:
                    self._after, self._of_host = self._place.after, self._place.of_host
                    for each in self._followers:
                        each.give(event, number)
        except HoldfastError:
            return  # each of them meets it
        finally:
            with self._lock:
                self._ended = True
                followers = list(self._followers)
            _forget(self._key, self)
            for each in followers:
                each.leave_alone()


_feeds: dict[FeedKey, EventFeed] = {}
_feeds_lock = threading.Lock()


def _forget(key: FeedKey, feed: EventFeed) -> None:
    with _feeds_lock:
        if _feeds.get(key) is feed:
            del _feeds[key]


def joined(key: FeedKey, follower: Follower, read: FeedReader) -> EventFeed | None:
    """Add a follower to the feed of its session, which starts if there is none.

    None if it has to read further alone before that.
    """
    with _feeds_lock:
        feed = _feeds.get(key)
        if feed is None:
            feed = EventFeed(key, follower.place, read)
            feed.join(follower)
            try:
                feed.begin()
            except RuntimeError:
                return None
            _feeds[key] = feed
            return feed
    return feed if feed.join(follower) else None


def count() -> int:
    """Return the number of feeds."""
    return len(_feeds)


class FollowedEvents:
    """The waiting of one follower, from call to call."""

    def __init__(self, key: FeedKey, after: int, read: FeedReader) -> None:
        self._key, self._read = key, read
        self._follower = Follower(EventPlace(after))
        self._feed: EventFeed | None = None

    def proceed(self, patience: Patience, emit: Callable[[Event], None]) -> Parked | None:
        """Pass on events until the session or the patience ends; then None.

        If nothing happens, return a wait for the next call.

        Raises:
            HoldfastError: the events cannot be followed any further.
        """
        while not patience.over:
            if self._feed is None and not self._by_itself(patience, emit):
                return None
            for event in self._follower.taken():
                emit(event)
            if self._follower.is_alone:
                self._leave()
            elif self._feed is not None and (parked := self._follower.parked()) is not None:
                patience.hold(parked)
                return parked
        self._leave()
        return None

    def _by_itself(self, patience: Patience, emit: Callable[[Event], None]) -> bool:
        """Read until there are no events, and join the feed if possible; false at the end."""
        for event in self._read(self._follower.place, patience, REST_SECONDS):
            emit(event)
        if not self._follower.place.rests or patience.over:
            return False
        self._feed = joined(self._key, self._follower, self._read)
        return True

    def _leave(self) -> None:
        if self._feed is not None:
            self._feed.leave(self._follower)
            self._feed, self._follower = None, Follower(self._follower.place)


def followed_events(session: Session, after: int, kinds: Collection[str] | None) -> FollowedEvents:
    """Return the waiting of one follower of a session, for events after a number, of some kinds."""
    line = session._line
    insight, home = SessionInsight(line), line.context.home
    key = (home.digest, session.id, None if kinds is None else tuple(sorted(set(kinds))))
    return FollowedEvents(
        key, after, lambda place, patience, rest: insight.events_from(place, kinds, patience, rest)
    )
