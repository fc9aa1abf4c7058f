"""All doors of one server: each answers what is of its wire, and leaves the rest to the next.

The first is that of the ports of sandboxes, since what is sent to the name of one must reach nothing else;
the last is our own API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from holdfast.base.home import Home
from holdfast.runtime.e2b import e2b_app
from holdfast.runtime.e2b.sandbox_access import SandboxTokens
from holdfast.runtime.e2b.sandbox_lives import SandboxLives
from holdfast.runtime.http_doors import door_packages
from holdfast.runtime.http_doors.door_guard import Admission, App
from holdfast.runtime.jupyter import jupyter_app
from holdfast.runtime.operations.context import Progress
from holdfast.runtime.serve import server_app
from holdfast.runtime.serve.api_server import Beside
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.serve.surroundings import RequestRate
from holdfast.runtime.swerex import swerex_app

if TYPE_CHECKING:
    from starlette.applications import Starlette


class ServedDoors:
    """The doors of a server with this token.

    Args:
        home: whose sessions are served.
        token: the server's own one.
        hosts, origins: as an `Admission` takes them.
        rate: requests a second in the long run; 0 is any number.
        actor: who acts for agents; None for the names by which they introduce themselves.
        progress: receives a line for each step of something slow.
    """

    def __init__(
        self,
        home: Home,
        token: str,
        progress: Progress,
        *,
        hosts: Iterable[str] | None = (),
        origins: Iterable[str] = (),
        rate: float = 0,
        actor: str | None = None,
    ) -> None:
        self.callers = callers = Callers(home, progress)
        admission, limit = Admission(token, hosts, origins), RequestRate(rate, max(1, rate * 2))
        lives, tokens, known = SandboxLives(callers), SandboxTokens(token), e2b_app.session_ids(callers)
        beside: list[Callable[[], AbstractAsyncContextManager[object]]] = [lives.running]
        callers.signature = tokens.signature
        app = server_app.application(callers, admission, limit)
        app = e2b_app.beside(app, callers, admission, tokens, limit, lives, known)
        # Before the other wire, which takes any request with its header for an API key.
        app = swerex_app.beside(app, callers, admission, limit)
        app = jupyter_app.beside(app, callers, admission, limit)
        if door_packages.installed("mcp"):
            from holdfast.runtime.serve.served_agents import ServedAgents

            def made() -> Starlette:
                from holdfast.runtime.serve.served_agents import agent_app

                return agent_app(home, actor, progress)

            app = agents = ServedAgents(made, app, callers, admission, limit)
            beside.append(agents.running)
        self.app: App = e2b_app.with_ports(app, callers, admission, tokens, known)
        self.beside: Beside = beside
        """What lives as long as the server."""
