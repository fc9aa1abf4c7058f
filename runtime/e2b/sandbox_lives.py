"""The lives of sandboxes: at its end each is removed or paused, by a task of the server.

Ends are kept in the store, so a restarted server ends the sandboxes of the previous one. Sessions
that no client of this wire made have no end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

from holdfast.base.text import plain
from holdfast.errors import HoldfastError, SessionBusy, SessionNotFound
from holdfast.runtime.e2b import sandbox_endings, sandbox_facts
from holdfast.runtime.e2b.sandbox_facts import SandboxFacts
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.store.rows import SessionRow

ACTOR = "system:e2b"
LOOK_SECONDS = 10.0
"""The longest time until a change by another process is noticed."""
AT_ONCE = 4
BUSY_SECONDS, LONGEST_SECONDS = 1.0, 300.0
GRACE_SECONDS = 30.0
logger = logging.getLogger("holdfast.serve")


def due(rows: Iterable[SessionRow], now: float) -> list[str]:
    """Return the sandboxes whose time is over.  Pure."""
    found = []
    for row in rows:
        facts = SandboxFacts.of(row)
        if facts is None or not facts.due(now):
            continue
        kills = ("running", "dead") if facts.at_end == "kill" else ("running",)
        if row.state in (*kills, "suspended") if facts.ended else row.state in kills:
            found.append(row.id)
    return found


def stopped_clocks(rows: Iterable[SessionRow]) -> list[str]:
    """Return sandboxes that were suspended by other means, whose clocks stop as well.  Pure."""
    found = ((row, SandboxFacts.of(row)) for row in rows if row.state == "suspended")
    return [row.id for row, facts in found if facts and facts.ends_at is not None and not facts.ended]


def pause_before(rows: Iterable[SessionRow], now: float) -> float:
    """Return the seconds until the next end, or until the next look at the store.  Pure."""
    ends = [facts.ends_at for row in rows if (facts := SandboxFacts.of(row)) and row.state == "running"]
    return min([LOOK_SECONDS, *(end - now for end in ends if end is not None and end > now)])


class SandboxLives:
    """The task that ends sandboxes."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        self._changed = asyncio.Event()
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._failed: dict[str, tuple[float, float]] = {}
        """By sandbox: when to try again, by the monotonic clock, and the seconds waited before that."""

    def look(self) -> None:
        """Read the ends again now; call it on the loop."""
        self._changed.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """End sandboxes while the block runs."""
        task = asyncio.create_task(self._live())
        try:
            yield
        finally:
            task.cancel()
            if self._ending:
                await asyncio.wait(self._ending.values(), timeout=GRACE_SECONDS)

    async def _live(self) -> None:
        while True:
            self._changed.clear()
            pause = LOOK_SECONDS
            try:
                pause = await self._round()
            except HoldfastError as error:
                logger.error("cannot look for the ends of sandboxes: %s", plain(str(error), 400))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), pause)

    async def _round(self) -> float:
        now, rows = time.time(), await self._callers.brief.run(self._rows)
        over = due(rows, now)
        self._failed = {each: found for each, found in self._failed.items() if each in over}
        pause = pause_before(rows, now)
        for each in over:
            again = self._failed.get(each, (0.0, 0.0))[0] - time.monotonic()
            if each in self._ending:
                continue
            if again > 0:
                pause = min(pause, again)
            elif len(self._ending) < AT_ONCE:
                self._ending[each] = asyncio.create_task(self._end(each))
        return max(pause, 0.01)

    async def _end(self, session_id: str) -> None:
        try:
            await self._callers.brief.run(lambda: self._ended(session_id))
            self._failed.pop(session_id, None)
        except SessionNotFound:
            pass
        except HoldfastError as error:
            waited = self._failed.get(session_id, (0.0, 0.0))[1]
            wait = BUSY_SECONDS if isinstance(error, SessionBusy) else min(LONGEST_SECONDS, 2 * waited + 1)
            self._failed[session_id] = (time.monotonic() + wait, wait)
            logger.error("cannot end sandbox %s yet: %s", session_id, plain(str(error), 400))
        finally:
            del self._ending[session_id]
            self.look()

    def _rows(self) -> list[SessionRow]:
        store = self._callers.controller(ACTOR).store
        rows = store.sessions()
        for each in stopped_clocks(rows):
            sandbox_facts.change(store, each, lambda facts: facts.paused())
        return rows

    def _ended(self, session_id: str) -> None:
        hf = self._callers.controller(ACTOR)

        def claimed(facts: SandboxFacts) -> SandboxFacts:
            over = facts.at_end == "kill" and facts.due(time.time())
            return facts.model_copy(update={"ended": True}) if over else facts

        # From this instant on no request can extend its life: for clients it is gone.
        facts = sandbox_facts.change(hf.store, session_id, claimed)
        row = hf.store.find_session(session_id)
        if row is None or facts is None or not facts.due(time.time()):
            return
        if facts.ended:
            sandbox_endings.kill(hf, row)
        elif row.state == "running":
            sandbox_endings.pause(hf, row, memory=facts.keeps_memory)
