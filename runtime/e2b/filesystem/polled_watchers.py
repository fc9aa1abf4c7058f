"""Watchers that clients ask for news, kept between their requests.

A watcher has no thread, and no queue of its own: what was not asked for yet waits in the session. It reports
everything again when that was too much, and the difference is found here. A watcher that is not asked for
long ends.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Callable
from typing import Any

from holdfast.errors import SessionFileNotFound
from holdfast.runtime.e2b.e2b_errors import WatcherNotFound
from holdfast.runtime.e2b.filesystem.account_names import AccountNames
from holdfast.runtime.e2b.filesystem.watch_events import events, gone
from holdfast.runtime.e2b.sandbox_caller import ACTOR
from holdfast.runtime.files.file_watch import FileWatch
from holdfast.runtime.files.watch_budget import SERVED, WatchBudget, WatchShare
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.serve.callers import Callers

MOST_BYTES = 32 << 20
"""What is kept of the files for one watch: some 55 000 files. What there is, the session decides."""
MOST_EVENTS = 10_000
"""Events of one answer; the next has the others."""
IDLE_SECONDS = 600.0
FIRST_SECONDS, NEXT_SECONDS = 0.3, 0.02
"""How long an answer waits for a first event, and then for another one: a session looks some milliseconds
after a change, and clients expect to hear of what they did just before."""


class PolledWatcher:
    """One watcher."""

    def __init__(
        self, sandbox: str, watch: FileWatch, patience: Patience, names: AccountNames | None
    ) -> None:
        self.sandbox = sandbox
        self.patience = patience
        self._watch, self._names = watch, names
        self._one_at_a_time = threading.Lock()
        self._left: list[dict[str, Any]] = []

    def news(self) -> list[dict[str, Any]]:
        """Return what has happened since the last time; in a thread.

        Raises:
            HoldfastError: the sandbox does not run.
        """
        with self._one_at_a_time:
            found = self._left
            try:
                self._take_in(found)
            except SessionFileNotFound:  # it was removed while nothing was connected, or with very much in it
                found.append(gone())
                self._watch.close()
            found, self._left = found[:MOST_EVENTS], found[MOST_EVENTS:]
            if self.patience.ended:
                self._watch.close()
            return found

    def _take_in(self, found: list[dict[str, Any]]) -> None:
        seconds = FIRST_SECONDS if not found else 0.0
        while len(found) < MOST_EVENTS and (change := self._watch.next(seconds)) is not None:
            found += events(change, self._watch.path, self._names)
            seconds = NEXT_SECONDS

    def close(self) -> None:
        """End it, from any thread, without waiting for one that asks for its events."""
        self.patience.end()
        if self._one_at_a_time.acquire(blocking=False):
            self._watch.close()
            self._one_at_a_time.release()


class PolledWatchers:
    """All of a server; used in its loop."""

    def __init__(self, callers: Callers, budget: WatchBudget = SERVED) -> None:
        self._callers, self._budget = callers, budget
        self._open: dict[str, PolledWatcher] = {}
        self._ends: dict[str, asyncio.TimerHandle] = {}

    async def begin(self, sandbox: str, begun: Callable[[Patience, WatchShare], PolledWatcher]) -> str:
        """Begin to watch, in a thread; return the id of the watcher, which no one can guess.

        Raises:
            TooManyWatches: there are too many.
            HoldfastError: it cannot begin.
        """
        if self._budget.is_full:
            await self._forget_gone()
        share = self._budget.begin(sandbox, by_sandbox=True)
        patience, id_ = self._callers.patience(), secrets.token_hex(16)
        try:
            found = await self._callers.brief.run(lambda: begun(patience, share), f"sandbox {sandbox}")
        except BaseException:
            share.close()
            patience.end()
            self._callers.done(patience)
            raise
        self._open[id_] = found
        self._wait(id_)
        return id_

    def find(self, sandbox: str, id_: str) -> PolledWatcher:
        """Return a watcher of a sandbox, which is then kept for another while.

        Raises:
            WatcherNotFound: it has none of this id.
        """
        found = self._open.get(id_)
        if found is None or found.sandbox != sandbox:
            raise WatcherNotFound(
                f"cannot find the watcher: it was removed, or not asked for {IDLE_SECONDS / 60:.0f} minutes",
                hint="watch the directory again",
            )
        self._ends.pop(id_).cancel()
        self._wait(id_)
        return found

    def end(self, id_: str) -> None:
        """End a watcher, if it is there."""
        if (found := self._open.pop(id_, None)) is not None:
            self._ends.pop(id_).cancel()
            self._callers.done(found.patience)
            found.close()

    def _wait(self, id_: str) -> None:
        self._ends[id_] = asyncio.get_running_loop().call_later(IDLE_SECONDS, self.end, id_)

    async def _forget_gone(self) -> None:
        """End the watchers of sandboxes that there are no longer."""
        there = await self._callers.brief.run(
            lambda: {row.id for row in self._callers.controller(ACTOR).store.sessions()}
        )
        for id_ in [id_ for id_, each in self._open.items() if each.sandbox not in there]:
            self.end(id_)
