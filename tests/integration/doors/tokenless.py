"""The server of agents, with its token added to every request: the suites send none.

After the home it can be given the folder of the example server of the protocol's own library: then the tools,
prompts and resources of that are behind our door.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import cast

import uvicorn

from holdfast.base.home import Home
from holdfast.runtime.http_doors import door_sockets
from holdfast.runtime.http_doors.admission import Receive, Scope, Send
from holdfast.runtime.mcp import http_door
from holdfast.runtime.mcp.agent_server import AgentServer
from holdfast.runtime.mcp.agent_sessions import Default
from holdfast.runtime.mcp.agent_tools import Cancellations


def main() -> None:
    """Serve on any free port, and print the address."""
    token = os.environ[http_door.TOKEN.variable]
    opened = door_sockets.listener("0")
    app = http_door.application(_server(*sys.argv[1:]), opened, token)

    async def with_token(scope: Scope, receive: Receive, send: Send) -> None:
        given = (b"authorization", f"Bearer {token}".encode())
        await app({**scope, "headers": [*scope.get("headers", ()), given]}, receive, send)

    print(http_door.url(opened), flush=True)  # noqa: T201  (for the test that starts this)
    uvicorn.Server(uvicorn.Config(with_token, log_level="error")).run(sockets=[opened])


def _server(home: str, example: str | None = None) -> AgentServer:
    if example is None:
        return AgentServer(Home(Path(home)), Default("suite"))
    sys.path.insert(0, example)
    found = importlib.import_module("mcp_everything_server.server").mcp
    found.middleware.append(Cancellations())
    return cast(AgentServer, found)


if __name__ == "__main__":
    main()
