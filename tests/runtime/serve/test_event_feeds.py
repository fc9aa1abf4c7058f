"""Followers of events wait without a thread, and lose and double nothing on the way in and out of a feed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.base import polling
from holdfast.errors import SessionDead
from holdfast.runtime.api.events import EventPlace
from holdfast.runtime.guest_rpc.event import Event
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.serve.call_threads import CallThreads, Parked
from holdfast.runtime.serve.calls import event_feeds
from holdfast.runtime.serve.calls.event_feeds import FollowedEvents

SECONDS = 30.0
OF_HOST = "life_ending"


class Ended:
    """Hangs up on a reading that waits."""

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self.hung_up = False

    def hang_up(self) -> None:
        with self._changed:
            self.hung_up = True
            self._changed.notify_all()


class Source:
    """A session's events, for any number of readings: of the session's own, and of this host's."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.own: list[int] = []
        self.of_host: list[int] = []
        self.readings = 0
        self.error: SessionDead | None = None

    def add(self, number: int, *, host: bool = False) -> None:
        with self.changed:
            (self.of_host if host else self.own).append(number)
            self.changed.notify_all()

    def fail(self) -> None:
        with self.changed:
            self.error = SessionDead("cannot use session work: its container is gone")
            self.changed.notify_all()

    def read(self, place: EventPlace, patience: Patience, rest: float | None) -> Iterator[Event]:
        waits = Ended(self.changed)
        patience.hold(waits)
        place.rests = False
        with self.changed:
            self.readings += 1
        try:
            while not waits.hung_up:
                found = self._next(place)
                if found is not None:
                    yield found
                    continue
                with self.changed:
                    if self.error is not None:
                        raise self.error
                    if rest is not None:
                        place.rests = True
                        return
                    if self._next(EventPlaceCopy(place)) is None and not waits.hung_up:
                        self.changed.wait(SECONDS)
        finally:
            with self.changed:
                self.readings -= 1

    def _next(self, place: Any) -> Event | None:
        for number in self.own:
            if number > place.after:
                place.after = number
                return Event(number, datetime.now(UTC), "oom", {})
        for number in self.of_host:
            if number > place.of_host:
                place.of_host = number
                return Event(place.after, datetime.now(UTC), OF_HOST, {"entry": number})
        return None


class EventPlaceCopy:
    """A place that is not moved."""

    def __init__(self, place: EventPlace) -> None:
        self.after, self.of_host = place.after, place.of_host


class Reader:
    """One follower in a loop, and the events it was given."""

    def __init__(self, threads: CallThreads, source: Source, after: int = 0) -> None:
        self.told: list[tuple[str, int]] = []
        self.patience = Patience()
        self._followed = FollowedEvents(("home", "session", None), after, source.read)
        self.ended = asyncio.ensure_future(threads.run(self._work))

    def _work(self) -> Parked | None:
        return self._followed.proceed(self.patience, self._tell)

    def _tell(self, event: Event) -> None:
        self.told.append((event.kind, event.data.get("entry", event.seq)))


async def happens(condition: Callable[[], bool]) -> bool:
    return await asyncio.to_thread(polling.until, condition, SECONDS)


def waits_in_feed(source: Source) -> bool:
    """One reading, the feed's, is left."""
    return event_feeds.count() == 1 and source.readings == 1


def test_200_idle_followers_have_one_thread() -> None:
    """Each learns of each event once, in order, and of its end; none is counted as a call that is over."""

    async def run() -> None:
        source, threads = Source(), CallThreads(512)
        source.add(1)
        readers = [Reader(threads, source) for _ in range(200)]
        assert await happens(lambda: waits_in_feed(source))
        assert threads.running == 200
        for number in (2, 3):
            source.add(number)
            source.add(number, host=True)
        expected = 5
        assert await happens(lambda: all(len(each.told) == expected for each in readers))
        for each in readers:
            assert [number for kind, number in each.told if kind == "oom"] == [1, 2, 3]
            assert [number for kind, number in each.told if kind == OF_HOST] == [2, 3]
        for each in readers:
            each.patience.end()
        assert await asyncio.gather(*(each.ended for each in readers)) == [None] * 200
        assert await happens(lambda: event_feeds.count() == 0 and source.readings == 0)

    asyncio.run(run())


def test_a_follower_that_lacks_events_reads_on_its_own_before_it_joins() -> None:
    """Events that the feed has passed are not left out; events still to come are not passed twice."""

    async def run() -> None:
        source, threads = Source(), CallThreads(512)
        for number in range(1, 50):
            source.add(number)
        early = Reader(threads, source, after=49)
        assert await happens(lambda: waits_in_feed(source))
        late = Reader(threads, source)
        assert await happens(lambda: len(late.told) == 49 and waits_in_feed(source))
        source.add(50)
        assert await happens(lambda: len(early.told) == 1 and len(late.told) == 50)
        assert [number for _, number in late.told] == list(range(1, 51))
        for each in (early, late):
            each.patience.end()
            await each.ended

    asyncio.run(run())


def test_each_follower_meets_the_end_of_the_session_on_its_own() -> None:
    """With the error that it would have met without a feed; none waits for ever."""

    async def run() -> None:
        source, threads = Source(), CallThreads(512)
        readers = [Reader(threads, source) for _ in range(20)]
        assert await happens(lambda: waits_in_feed(source))
        source.fail()
        found = await asyncio.gather(*(each.ended for each in readers), return_exceptions=True)
        assert [type(each) for each in found] == [SessionDead] * 20
        assert threads.running == 0
        assert event_feeds.count() == 0

    asyncio.run(run())


def test_a_slow_reader_delays_no_other_and_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_feeds, "MOST_PENDING", 3)

    async def run() -> None:
        source, threads = Source(), CallThreads(512)
        slow, quick = Reader(threads, source), Reader(threads, source)
        gate, tell = threading.Event(), slow._tell

        def told(event: Event) -> None:
            assert gate.wait(SECONDS)
            tell(event)

        slow._tell = told  # type: ignore[method-assign]
        assert await happens(lambda: waits_in_feed(source))
        for number in range(1, 101):
            source.add(number)
        assert await happens(lambda: len(quick.told) == 100)
        assert not slow.told
        gate.set()
        assert await happens(lambda: len(slow.told) == 100)
        assert [number for _, number in slow.told] == list(range(1, 101))
        for each in (slow, quick):
            each.patience.end()
            await each.ended

    asyncio.run(run())
