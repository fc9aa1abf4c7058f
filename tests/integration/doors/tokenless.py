"""The server of agents, with its token added to every request: the suites send none."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import uvicorn

from holdfast.base.home import Home
from holdfast.runtime.http_doors import door_sockets
from holdfast.runtime.http_doors.admission import Receive, Scope, Send
from holdfast.runtime.mcp import http_door
from holdfast.runtime.mcp.agent_server import AgentServer
from holdfast.runtime.mcp.agent_sessions import Default


def main() -> None:
    """Serve on any free port, and print the address."""
    token = os.environ[http_door.TOKEN.variable]
    opened = door_sockets.listener("0")
    app = http_door.application(AgentServer(Home(Path(sys.argv[1])), Default("suite")), opened, token)

    async def with_token(scope: Scope, receive: Receive, send: Send) -> None:
        given = (b"authorization", f"Bearer {token}".encode())
        await app({**scope, "headers": [*scope.get("headers", ()), given]}, receive, send)

    print(http_door.url(opened), flush=True)  # noqa: T201  (for the test that starts this)
    uvicorn.Server(uvicorn.Config(with_token, log_level="error")).run(sockets=[opened])


if __name__ == "__main__":
    main()
