"""The list of tools, which every conversation pays for, and calls that are wrong. No session is used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from holdfast.base.home import Home
from holdfast.runtime.mcp.agent_server import INSTRUCTIONS, AgentServer, _actor
from holdfast.runtime.mcp.agent_sessions import Default

NAMES = "run answer wait read cell screen status snapshot go_back changes file sessions task"
MOST_OF_LIST = 6100
"""Of what a model reads; hints and titles are for its client."""
MOST_OF_INSTRUCTIONS = 2048
"""What clients show of them."""


@pytest.fixture
def server(tmp_path: Path) -> AgentServer:
    return AgentServer(Home(tmp_path / "home"), Default("agent"))


def listed(server: AgentServer) -> list[dict[str, Any]]:
    async def ask() -> list[dict[str, Any]]:
        async with Client(server) as client:
            found = await client.list_tools()
        return [tool.model_dump(by_alias=True, exclude_none=True) for tool in found.tools]

    return anyio.run(ask)


def test_the_list_is_short_and_says_each_thing_once(server: AgentServer) -> None:
    tools = listed(server)
    read = [{key: each[key] for key in ("name", "description", "inputSchema")} for each in tools]
    assert len(json.dumps(read)) < MOST_OF_LIST
    assert len(INSTRUCTIONS) < MOST_OF_INSTRUCTIONS
    assert [tool["name"] for tool in tools] == NAMES.split()
    for tool in tools:
        assert "outputSchema" not in tool
        assert tool["inputSchema"]["additionalProperties"] is False
        assert "title" not in json.dumps(tool["inputSchema"])


def test_tools_that_only_look_say_so(server: AgentServer) -> None:
    looking = {tool["name"] for tool in listed(server) if tool["annotations"]["readOnlyHint"]}
    assert looking == {"wait", "read", "screen", "status", "changes"}


def test_every_tool_has_a_title_and_all_hints(server: AgentServer) -> None:
    """Tools have one title, and every hint whose default is wrong for some tool.

    A client takes a tool without hints for one that destroys and reaches the world, whatever it does.
    """
    hints = {"title", "readOnlyHint", "destructiveHint", "openWorldHint"}
    tools = listed(server)
    assert all(set(tool["annotations"]) == hints for tool in tools)
    assert len({tool["annotations"]["title"] for tool in tools}) == len(tools) == 13
    assert not any("title" in tool for tool in tools)
    destroys = {tool["name"] for tool in tools if tool["annotations"]["destructiveHint"]}
    assert destroys == {"run", "answer", "cell", "file", "sessions", "task"}
    assert {tool["name"] for tool in tools if tool["annotations"]["openWorldHint"]} == {
        "run", "answer", "cell", "task",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("run", {}, "cannot call run: command: Field required"),
        ("run", {"command": "x", "wait": "soon"}, "cannot call run: wait: Input should be a valid number"),
        (
            "run",
            {"command": "x", "timeout": 5},
            "cannot call run: it does not have the argument timeout; it has",
        ),
        ("run", {"command": "x", "wait": -1}, "cannot wait that long"),
        ("nothing", {}, "Unknown tool: nothing"),
        ("answer", {"text": "a", "key": "C-c"}, "cannot type a text and press a key in one call"),
        ("file", {"path": ""}, "cannot use a file without a path"),
        ("file", {"path": "x", "old": "a"}, "cannot edit"),
        ("go_back", {"copies": 1000}, "cannot make 1000 copies"),
        ("task", {"action": "done"}, "cannot do `done`: it needs step"),
        ("task", {"action": "decide", "text": "x"}, "cannot do `decide`: it needs why"),
        ("task", {"action": "attempt", "step": "1.1"}, "cannot do `attempt`: it needs text"),
        ("task", {"action": "reread"}, "cannot do `reread`: it needs text"),
        ("task", {"action": "artifact"}, "cannot do `artifact`: it needs text"),
        ("task", {"action": "import"}, "cannot do `import`: it needs text"),
        ("task", {"action": "drop"}, "cannot do `drop`: it needs text (such as `question 2`)"),
        ("task", {"action": "dance"}, "cannot call task: action: Input should be 'show', "),
        ("sessions", {"new": "a", "end": "b"}, "cannot make and end a session in one call"),
    ],
)
def test_a_wrong_call_is_reported_in_one_line(
    server: AgentServer, tool: str, arguments: dict[str, Any], said: str
) -> None:
    async def call() -> Any:
        async with Client(server) as client:
            return await client.call_tool(tool, arguments)

    result = anyio.run(call)
    assert result.is_error
    assert result.content[0].text.startswith(said)
    assert "\n" not in result.content[0].text


@pytest.mark.parametrize(
    ("name", "actor"),
    [
        ("claude-code", "agent:claude-code"),
        ("Visual Studio Code", "agent:Visual-Studio-Code"),
        ("", "agent"),
        ("\x1b[2J", "agent:2J"),
        ("é", "agent"),
        ("x" * 500, "agent:" + "x" * 40),
    ],
)
def test_a_client_acts_in_its_own_name(name: str, actor: str) -> None:
    assert _actor(name) == actor
