"""Watchers that are asked for news."""

from __future__ import annotations

import asyncio
from collections import deque
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.runtime.e2b import folder_watches
from holdfast.runtime.e2b.connect_wire import WatcherNotFound
from holdfast.runtime.e2b.folder_watches import PolledWatcher, PolledWatchers
from holdfast.runtime.files import watch_budget
from holdfast.runtime.files.file_tree import WatchedChange
from holdfast.runtime.files.file_watch import FileWatch
from holdfast.runtime.files.watch_budget import TooManyWatches, WatchBudget, WatchShare
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.serve.call_threads import CallThreads
from holdfast.runtime.serve.callers import Callers


class Watch:
    """A watch of a session that has changes ready."""

    def __init__(self, *names: str) -> None:
        self.path, self.closed = "/w", False
        self.share: WatchShare | None = None
        self.changes = deque(WatchedChange("removed", f"/w/{name}") for name in names)

    def next(self, timeout: float | None) -> WatchedChange | None:
        return self.changes.popleft() if self.changes else None

    def close(self) -> None:
        self.closed = True
        if self.share is not None:
            self.share.close()


class Server:
    """The watchers' requirements of the server's callers."""

    def __init__(self) -> None:
        self.brief, self.patient, self.there = CallThreads(8), set[Patience](), ["one", "two"]

    def patience(self) -> Patience:
        made = Patience()
        self.patient.add(made)
        return made

    def done(self, patience: Patience) -> None:
        self.patient.discard(patience)

    def controller(self, _: str) -> Any:
        rows = [SimpleNamespace(id=each) for each in self.there]
        return SimpleNamespace(store=SimpleNamespace(sessions=lambda: rows))


class Kept:
    def __init__(self) -> None:
        self.server = Server()
        self.budget = WatchBudget()
        self.all = PolledWatchers(cast(Callers, self.server), self.budget)
        self.watches: list[Watch] = []

    async def begin(self, sandbox: str, *names: str) -> str:
        def begun(patience: Patience, share: WatchShare) -> PolledWatcher:
            self.watches.append(Watch(*names))
            self.watches[-1].share = share
            return PolledWatcher(sandbox, cast(FileWatch, self.watches[-1]), patience, None)

        return await self.all.begin(sandbox, begun)


def test_a_watcher_belongs_to_one_sandbox_and_ends_once() -> None:
    async def body() -> None:
        kept = Kept()
        id_ = await kept.begin("one", "a", "b")
        assert len(id_) == 32
        assert [each["name"] for each in kept.all.find("one", id_).news()] == ["a", "b"]
        assert kept.all.find("one", id_).news() == []
        for sandbox, guess in (("two", id_), ("one", "0" * 32), ("one", "")):
            with pytest.raises(WatcherNotFound):
                kept.all.find(sandbox, guess)
        kept.all.end(id_)
        kept.all.end(id_)
        assert kept.watches[0].closed
        assert not kept.server.patient

    asyncio.run(body())


def test_unused_watches_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_watches, "IDLE_SECONDS", 0.0)

    async def body() -> None:
        kept = Kept()
        id_ = await kept.begin("one")
        while not kept.watches[0].closed:
            await asyncio.sleep(0)
        with pytest.raises(WatcherNotFound, match="not asked for"):
            kept.all.find("one", id_)

    asyncio.run(body())


def test_there_are_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_budget, "MOST_OF_SANDBOX", 2)
    monkeypatch.setattr(watch_budget, "MOST_BY_SANDBOX", 3)

    async def body() -> None:
        kept = Kept()
        begun = await asyncio.gather(*(kept.begin("one") for _ in range(3)), return_exceptions=True)
        assert sorted(type(each).__name__ for each in begun) == ["TooManyWatches", "str", "str"]
        await kept.begin("two")
        with pytest.raises(TooManyWatches):
            await kept.begin("two")
        kept.server.there = ["two"]  # the other one is gone, and its watchers leave room
        await kept.begin("two")
        assert [each.closed for each in kept.watches] == [True, True, False, False]

    asyncio.run(body())


def test_a_watch_that_cannot_begin_leaves_nothing() -> None:
    async def body() -> None:
        kept = Kept()

        def begun(_: Patience, share: WatchShare) -> PolledWatcher:
            share.hold(100)
            raise OSError("it is not there")

        for _ in range(watch_budget.MOST_BY_SANDBOX + 1):
            with pytest.raises(OSError, match="not there"):
                await kept.all.begin("one", begun)
        assert not kept.server.patient
        assert kept.budget.bytes == 0

    asyncio.run(body())


def test_an_answer_has_so_many_events_and_the_next_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_watches, "MOST_EVENTS", 3)
    watcher = PolledWatcher("one", cast(FileWatch, Watch(*"abcdefg")), Patience(), None)
    assert ["".join(each["name"] for each in watcher.news()) for _ in range(4)] == ["abc", "def", "g", ""]


def test_a_watch_that_ends_while_asked_is_closed() -> None:
    watch, patience = Watch("a"), Patience()
    watcher = PolledWatcher("one", cast(FileWatch, watch), patience, None)
    with watcher._one_at_a_time:  # another request asks for its events
        watcher.close()
        assert patience.ended
        assert not watch.closed
    watcher.news()
    assert watch.closed
