"""The server over HTTP, for callers with the token: on a port of its own, or as an application of another
server.

The package `mcp` is loaded only for the first agent that comes.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import uvicorn

from holdfast.base import own_memory
from holdfast.runtime.http_doors import door_sockets
from holdfast.runtime.http_doors.admission import Admission, App, guarded
from holdfast.runtime.http_doors.door_setup import DoorToken
from holdfast.runtime.http_doors.door_sockets import DoorConnection

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from holdfast.base.home import Home
    from holdfast.runtime.mcp.agent_server import AgentServer, ToolRules
    from holdfast.runtime.operations.context import Progress

TOKEN = DoorToken("HOLDFAST_MCP_TOKEN", "mcp-token")
PATH = "/mcp"
MOST_CONNECTIONS = 200
IDLE_SECONDS = 3600.0
SESSION = "agent"
"""The session for calls that name none, on a server that is not of one folder."""


def url(opened: socket.socket) -> str:
    """Return the address for clients."""
    return door_sockets.url(opened, PATH)


def application(server: AgentServer, opened: socket.socket, token: str) -> App:
    """Return the handler of requests that arrive at a socket."""
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
    own_memory.return_what_is_freed()
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


def agent_app(home: Home, actor: str | None, progress: Progress, rules: ToolRules | None = None) -> Starlette:
    """Return the tools as an application, whose lifespan must be entered before its first request.

    Admission, and the limits of requests, are decided before they arrive there.

    Args:
        home: whose sessions agents use.
        actor: who acts, for the journal; None for the name by which each client introduces itself.
        progress: receives a line for each step of something slow.
        rules: for holders of access keys.
    """
    from mcp.server.transport_security import TransportSecuritySettings

    from holdfast.runtime.mcp.agent_server import AgentServer
    from holdfast.runtime.mcp.agent_sessions import Default

    server = AgentServer(home, Default(SESSION), actor=actor, progress=progress, rules=rules)
    return server.streamable_http_app(
        streamable_http_path=PATH,
        session_idle_timeout=IDLE_SECONDS,
        max_sessions=MOST_CONNECTIONS,
        # The gate knows by which names this server is reached, and from which pages.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
