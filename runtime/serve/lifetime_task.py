"""The task of a server that carries out the lifetimes of all sessions of its home: ends, warnings, sleep.

The ends are in the store, so a restarted server carries out the ends of its predecessor.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from holdfast.base.text import plain
from holdfast.errors import HoldfastError
from holdfast.runtime.lifetimes import session_ends
from holdfast.runtime.lifetimes.session_ends import ACTOR, LOOK_SECONDS, DueSteps, Step, Watch
from holdfast.runtime.serve.api_server import until_next, working
from holdfast.runtime.serve.callers import Callers

AT_ONCE, IDLE_AT_ONCE = 4, 2
"""Steps carried out at the same time, and how many of them can ask a session, which can be slow to answer."""
GRACE_SECONDS = 30.0
logger = logging.getLogger("holdfast.serve")


class LifetimeTask:
    """Carries out lifetimes in threads, a few at a time."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        callers.lifetime_changed = self.look
        self._changed = asyncio.Event()
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._asking: set[str] = set()
        self._watch = Watch()

    def look(self) -> None:
        """Read the ends again now; call it on the loop."""
        self._changed.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Carry out lifetimes while the block runs."""
        try:
            async with working(self._live()):
                yield
        finally:
            if self._under_way:
                await asyncio.wait(self._under_way.values(), timeout=GRACE_SECONDS)

    async def _live(self) -> None:
        while True:
            self._changed.clear()
            pause = until_next(LOOK_SECONDS)
            try:
                pause = await self._round()
            except HoldfastError as error:
                logger.error("cannot look for the ends of sessions: %s", plain(str(error), 400))
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._changed.wait()

    async def _round(self) -> float:
        rows = await self._callers.session_rows(ACTOR)
        self._watch.keep(row.id for row in rows)
        plan = DueSteps.of(rows, self._watch.used, time.time())
        pause = min(plan.pause, until_next(LOOK_SECONDS))
        for session_id, step in plan.steps:
            again = self._watch.ready(session_id, time.monotonic())
            if again > 0:
                pause = min(pause, again)
            elif session_id not in self._under_way and self._has_room(step):
                self._asking |= {session_id} if step == "idle" else set()
                self._under_way[session_id] = asyncio.create_task(self._carry_out(session_id, step))
        return max(pause, 0.01)

    def _has_room(self, step: Step) -> bool:
        return len(self._under_way) < AT_ONCE and (step != "idle" or len(self._asking) < IDLE_AT_ONCE)

    async def _carry_out(self, session_id: str, step: Step) -> None:
        try:
            await self._callers.brief.run(lambda: self._step(session_id, step))
            self._watch.succeeded(session_id)
        except HoldfastError as error:
            self._watch.failed(session_id, error, time.monotonic())
            logger.error("lifetime of session %s: %s", session_id, plain(str(error), 400))
        finally:
            del self._under_way[session_id]
            self._asking.discard(session_id)
            self.look()

    def _step(self, session_id: str, step: Step) -> None:
        context = self._callers.controller(ACTOR).context
        session_ends.carry_out(context, self._watch, session_id, step)
