"""Verb: serve."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.caller import EarlyOptions
from holdfast.runtime.http_doors import door_packages

if TYPE_CHECKING:
    from starlette.applications import Starlette

PORT = "8420"


def serve(
    listen: Annotated[
        str | None,
        typer.Option("--listen", metavar="PORT|HOST:PORT", help=f"A port of loopback; {PORT} by default."),
    ] = None,
    unix: Annotated[
        Path | None, typer.Option("--unix", metavar="PATH", help="A unix socket instead, for you alone.")
    ] = None,
    anywhere: Annotated[
        bool, typer.Option("--anywhere", help="Let --listen name an address beyond loopback.")
    ] = False,
    host_name: Annotated[
        list[str] | None,
        typer.Option("--host-name", metavar="NAME", help="A name clients may use for this server."),
    ] = None,
    origin: Annotated[
        list[str] | None,
        typer.Option("--origin", metavar="URL", help="Pages of this origin may use the server."),
    ] = None,
    rate: Annotated[
        float, typer.Option("--rate", min=0, help="Requests a second in the long run; 0 is any number.")
    ] = 500,
) -> None:
    """Serve sessions over HTTP and WebSockets, to those who have the token."""
    door_packages.check("serve", "serve")
    if listen is not None and unix is not None:
        raise InvalidArgument("cannot listen on a port and a unix socket at once", hint="leave out one")
    from holdfast.runtime.e2b import e2b_app
    from holdfast.runtime.e2b.sandbox_lives import SandboxLives
    from holdfast.runtime.e2b.sandbox_tokens import SandboxTokens
    from holdfast.runtime.http_doors import door_listener, door_token
    from holdfast.runtime.http_doors.door_guard import Admission
    from holdfast.runtime.serve import api_server, server_app
    from holdfast.runtime.serve.callers import Callers
    from holdfast.runtime.serve.request_rate import RequestRate
    from holdfast.runtime.swerex import swerex_app

    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    home = Home.default().create()
    token, file = door_token.token_of(home, door_token.SERVER)
    opened = door_listener.inherited()
    if opened is None and unix is not None:
        opened = door_listener.unix_listener(unix)
    elif opened is None:
        opened = door_listener.listener(listen or PORT, anywhere=anywhere)
    hosts = None if door_listener.is_unix(opened) else host_name or ()
    callers = Callers(home, printing.note)
    admission, limit = Admission(token, hosts, origin or ()), RequestRate(rate, max(1, rate * 2))
    app = server_app.application(callers, admission, limit)
    lives = SandboxLives(callers)
    tokens, known = SandboxTokens(token), e2b_app.session_ids(callers)
    app = e2b_app.beside(app, callers, admission, tokens, limit, lives, known)
    # Before the other wire, which takes any request with its header for an API key.
    app = swerex_app.beside(app, callers, admission, limit)
    beside: list[Callable[[], AbstractAsyncContextManager[object]]] = [lives.running]
    if door_packages.installed("mcp"):
        from holdfast.runtime.serve.served_agents import ServedAgents

        def made() -> Starlette:
            from holdfast.runtime.serve.agent_app import agent_app

            return agent_app(home, EarlyOptions.actor, printing.note)

        app = agents = ServedAgents(made, app, callers, admission, limit)
        beside.append(agents.running)
    app = e2b_app.with_ports(app, callers, admission, tokens, known)
    where = f"is in {file}" if file else f"is that of {door_token.SERVER.variable}"

    def ready() -> None:
        printing.say(f"serving {door_listener.url(opened)}")
        sys.stdout.flush()
        printing.note(f"the token {where}; clients send it as `Authorization: Bearer TOKEN`")

    try:
        api_server.serve(app, callers, opened, ready, beside)
    finally:
        if unix is not None:
            unix.unlink(missing_ok=True)
