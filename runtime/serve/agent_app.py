"""The tools of `holdfast mcp` as an application for the server's own port; needs the package `mcp`.

Who is let in, and how requests are limited, is decided before they arrive here.
"""

from __future__ import annotations

from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

from holdfast.base.home import Home
from holdfast.runtime.mcp.agent_server import AgentServer
from holdfast.runtime.mcp.agent_sessions import Default
from holdfast.runtime.mcp.http_door import IDLE_SECONDS, MOST_CONNECTIONS, PATH
from holdfast.runtime.operations.context import Progress

SESSION = "agent"
"""The session for calls that name none."""


def agent_app(home: Home, actor: str | None, progress: Progress) -> Starlette:
    """Return the application, whose lifespan must be entered before its first request.

    Args:
        home: whose sessions agents use.
        actor: who acts, for the journal; None for the name by which each client introduces itself.
        progress: receives a line for each step of something slow.
    """
    server = AgentServer(home, Default(SESSION), actor=actor, progress=progress)
    return server.streamable_http_app(
        streamable_http_path=PATH,
        session_idle_timeout=IDLE_SECONDS,
        max_sessions=MOST_CONNECTIONS,
        # The admission knows by which names this server is reached, and from which pages.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
