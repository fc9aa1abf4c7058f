"""The tasks of a server that is a node of a cluster: each round of the agent in a thread of its own.

A renewal waits neither for copies nor for sessions that return: a node that works must not lose its lease.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager

from holdfast.base.text import plain
from holdfast.errors import ClusterUnavailable, HoldfastError
from holdfast.runtime.node.node_agent import NodeAgent
from holdfast.runtime.serve.api_server import working

AGAIN_SECONDS = 1.0
OBEY_SECONDS, COPY_SECONDS, NOTE_SECONDS, RELEASE_SECONDS, TIDY_SECONDS = 0.5, 0.5, 1.0, 0.5, 600.0
NETWORK_SECONDS, ENDED_SECONDS = 1.0, 2.0
logger = logging.getLogger("holdfast.node")


class NodeTasks:
    """Runs an agent while a server serves."""

    def __init__(self, agent: NodeAgent) -> None:
        self._agent = agent
        self._told: dict[str, str] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Take part in the cluster while the block runs."""
        rounds: list[tuple[str, Callable[[], float]]] = [
            ("lease", self._agent.beat),
            ("network", _every(NETWORK_SECONDS, self._agent.pass_on_to_networks)),
            ("obey", _every(OBEY_SECONDS, self._agent.obey)),
            ("start", _every(OBEY_SECONDS, self._agent.start)),
            ("ended", _every(ENDED_SECONDS, self._agent.recover_ended)),
            ("copy", _every(COPY_SECONDS, self._agent.replicate)),
            ("note", _every(NOTE_SECONDS, self._agent.note_commands)),
            ("release", _every(RELEASE_SECONDS, self._agent.release)),
            ("reap", self._agent.reap),
            ("tidy", _every(TIDY_SECONDS, self._agent.forget_set_aside)),
        ]
        async with AsyncExitStack() as stack:
            for name, work in rounds:
                await stack.enter_async_context(working(self._live(name, work)))
            yield

    async def _live(self, name: str, work: Callable[[], float]) -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, f"node-{name}") as thread:
            while True:
                try:
                    pause = await loop.run_in_executor(thread, work)
                    if self._told.pop(name, None):
                        logger.info("%s: the cluster answers again", name)
                except (HoldfastError, OSError) as error:
                    pause = AGAIN_SECONDS
                    self._tell(name, error)
                except Exception:
                    pause = AGAIN_SECONDS
                    logger.exception("%s failed", name)
                await asyncio.sleep(pause)

    def _tell(self, name: str, error: Exception) -> None:
        """Log an error when it differs from the last one: an outage would fill the log."""
        said = type(error).__name__ if isinstance(error, ClusterUnavailable) else str(error)
        if self._told.get(name) != said:
            self._told[name] = said
            logger.error("%s: %s", name, plain(str(error), 400))


def _every(seconds: float, work: Callable[[], None]) -> Callable[[], float]:
    def once() -> float:
        work()
        return seconds

    return once
