"""The task of a server that keeps the pool of its home filled, and empties it when memory is short.

Without a server, each `new` has it filled again.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager

from holdfast.base.text import plain
from holdfast.errors import HoldfastError
from holdfast.runtime.lifecycle import pool_filler
from holdfast.runtime.lifetimes.session_ends import ACTOR
from holdfast.runtime.serve.api_server import working
from holdfast.runtime.serve.callers import Callers

LOOK_SECONDS = 5.0
logger = logging.getLogger("holdfast.serve")


class PoolTask:
    """Looks after the pool of the server's home."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    def running(self) -> AbstractAsyncContextManager[None]:
        """Look after it while the block runs."""
        return working(self._live())

    async def _live(self) -> None:
        while True:
            try:
                await self._callers.brief.run(self._tend)
            except HoldfastError as error:
                logger.error("pool: %s", plain(str(error), 400))
            await asyncio.sleep(LOOK_SECONDS)

    def _tend(self) -> None:
        pool_filler.tend(self._callers.controller(ACTOR).context)
