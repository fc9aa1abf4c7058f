"""The server over HTTP, on loopback, for those who have the token."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import uvicorn

from holdfast.runtime.http_doors import door_sockets
from holdfast.runtime.http_doors.admission import Admission, App, guarded
from holdfast.runtime.http_doors.door_setup import DoorToken
from holdfast.runtime.http_doors.door_sockets import DoorConnection

if TYPE_CHECKING:  # the server for programs has this path, and loads the tools for agents only when one comes
    from holdfast.runtime.mcp.agent_server import AgentServer

TOKEN = DoorToken("HOLDFAST_MCP_TOKEN", "mcp-token")
PATH = "/mcp"
MOST_CONNECTIONS = 200
IDLE_SECONDS = 3600.0


def url(opened: socket.socket) -> str:
    """Return the address for clients."""
    return door_sockets.url(opened, PATH)


def application(server: AgentServer, opened: socket.socket, token: str) -> App:
    """Return what answers requests that arrive at a socket."""
    host = opened.getsockname()[0]
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        host=host,
        session_idle_timeout=IDLE_SECONDS,
        max_sessions=MOST_CONNECTIONS,
    )
    return guarded(app, Admission(token))


def serve(server: AgentServer, opened: socket.socket, token: str) -> None:
    """Serve until the process is asked to end."""
    config = uvicorn.Config(
        application(server, opened, token),
        log_level="error",
        access_log=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=2,
        server_header=False,
        http=DoorConnection,
        ws="none",
    )
    uvicorn.Server(config).run(sockets=[opened])
