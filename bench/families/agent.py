"""What an agent's tools cost: bytes of its context, and the time of a call over pipes."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from bench.plan import Plan
from bench.rounds import timed
from bench.row import Row
from bench.stats import Series, Target
from bench.world import World

FAMILY = "agent"
BUILD = (
    "for i in $(seq 3000); do printf '\\r\\033[K[%d/3000] compiling unit%d.c' $i $i; done; echo; "
    'for i in $(seq 400); do echo "unit$i.c:12:5: warning: unused variable [-Wunused-variable]"; done; '
    "echo 'main.c:7:1: error: expected ;' >&2; (exit 2)"
)
"""A build of 3400 lines that fails, with a progress bar: a command."""


def rows(world: World, plan: Plan) -> Iterator[Row]:
    """Measure what `holdfast mcp` says and how long a call takes; `exec` of a handle is the baseline."""
    session = world.session("agent")
    session.exec("true")
    session.cell("data = list(range(1000))")
    direct = [timed(lambda: session.exec("true")) for _ in range(plan.execute)]
    found = anyio.run(_ask, world, plan.execute)
    for name, most in (("list of tools", 5200), ("answer to a failing build", 8000), ("status", 3000)):
        yield Row(
            FAMILY,
            name,
            Series("Holdfast", "bytes", (float(found[name]),)),
            target=Target(most, "value", "what a conversation should spend on it"),
        )
    yield Row(
        FAMILY,
        "run, over pipes",
        Series("Holdfast", "s", tuple(found["run"])),
        baseline=Series("exec in process", "s", tuple(direct)),
    )
    session.remove()


async def _ask(world: World, rounds: int) -> dict[str, Any]:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "holdfast", "mcp", "--session", "agent"],
        env={**os.environ, "HOLDFAST_HOME": str(world.home)},
    )
    async with Client(stdio_client(server)) as client:
        tools = [
            tool.model_dump(by_alias=True, exclude_none=True) for tool in (await client.list_tools()).tools
        ]
        seconds = []
        for _ in range(rounds):
            started = time.perf_counter()
            await client.call_tool("run", {"command": "true"})
            seconds.append(time.perf_counter() - started)
        said = {
            name: await client.call_tool(tool, arguments)
            for name, tool, arguments in (
                ("answer to a failing build", "run", {"command": BUILD}),
                ("status", "status", {}),
            )
        }
    sizes = {name: len(answer.content[0].text.encode()) for name, answer in said.items()}  # type: ignore[union-attr]
    return {"list of tools": len(json.dumps(tools)), "run": seconds, **sizes}
