"""The task of a server that keeps the pool of its home filled, and empties it when memory is short.

Without a server, each `new` has it filled again.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager

from holdfast.base.text import plain
from holdfast.errors import HoldfastError
from holdfast.runtime.lifecycle import pool_filler, pool_plan
from holdfast.runtime.lifetimes.session_ends import ACTOR
from holdfast.runtime.serve.api_server import until_next, working
from holdfast.runtime.serve.callers import Callers

LOOK_SECONDS = 5.0
logger = logging.getLogger("holdfast.serve")


class PoolTask:
    """Looks after the pool of the server's home."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        self._empty_at: object = None

    def running(self) -> AbstractAsyncContextManager[None]:
        """Look after it while the block runs."""
        return working(self._live())

    async def _live(self) -> None:
        while True:
            try:
                await self._round()
            except HoldfastError as error:
                logger.error("pool: %s", plain(str(error), 400))
            await asyncio.sleep(until_next(LOOK_SECONDS))

    async def _round(self) -> None:
        """Tend the pool. A home without one is looked at again when its store has changed."""
        stamp = self._callers.seen.stamp()
        if (
            self._empty_at is not None
            and stamp == self._empty_at
            and not pool_plan.read(self._callers.home).size
        ):
            return
        there = await self._callers.brief.run(self._tend)
        self._empty_at = None if there else stamp

    def _tend(self) -> int:
        return pool_filler.tend(self._callers.controller(ACTOR).context)
