"""The rounds of a node's agent while a server serves."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from holdfast.errors import ClusterUnavailable
from holdfast.runtime.node.node_agent import NodeAgent
from holdfast.runtime.node.node_tasks import NodeTasks


class Rounds:
    """An agent that counts its rounds; its lease cannot be renewed."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def beat(self) -> float:
        self.made.append("beat")
        raise ClusterUnavailable("cannot reach the database")

    def reap(self) -> float:
        self.made.append("reap")
        return 60.0

    def __getattr__(self, name: str) -> Any:
        return lambda: self.made.append(name)


def test_each_round_is_made_whatever_fails() -> None:
    """Files that were set aside are looked at as well."""
    agent = Rounds()

    async def run() -> None:
        async with NodeTasks(cast("NodeAgent", agent)).running():
            while len(set(agent.made)) < 10:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(run(), 30))
    rounds = {"beat", "obey", "start", "replicate", "note_commands", "release", "reap", "forget_set_aside"}
    rounds |= {"recover_ended", "pass_on_to_networks"}
    assert set(agent.made) == rounds
