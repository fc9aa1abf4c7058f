"""Verb: mcp."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from holdfast.base import ids
from holdfast.base.home import Home
from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import session_options
from holdfast.runtime.cli.caller import EarlyOptions
from holdfast.runtime.cli.grammar import examples, option
from holdfast.runtime.http_doors import door_setup


@examples("mcp", "mcp --image data --warm")
def mcp(
    session: str | None = option(
        "--session", metavar="NAME", help="The default session, else one for this folder."
    ),
    template: str | None = option("--template", help="Start sessions that are made from this template."),
    options: dict[str, Any] = session_options("mcp"),
    warm: bool = option("--warm", help="Start sessions that are made with the kernel ready."),
    http: str | None = option("--http", metavar="PORT", help="Serve on this port of loopback."),
    new_token: bool = option(
        "--new-token", help="With --http: make a new token; that of before opens nothing any more."
    ),
) -> None:
    """Serve agents over the Model Context Protocol, on standard input and output or over HTTP."""
    door_setup.check_packages("mcp", "serve agents")
    if http is None and sys.stdin.isatty():
        raise InvalidArgument(
            "cannot serve agents on a terminal: an agent's program starts this",
            hint="for example: claude mcp add holdfast -- holdfast mcp",
        )
    from holdfast.runtime.mcp.agent_server import AgentServer
    from holdfast.runtime.mcp.agent_sessions import Default
    from holdfast.runtime.sessions.session_options import SessionOptions

    SessionOptions.parse(**options)  # now, where a person sees what is wrong
    if template is not None:
        options["template"] = template
    if warm:
        options["warm"] = True
    default = Default(ids.check_name(session), options) if session else Default.of_folder(Path.cwd(), options)
    server = AgentServer(None, default, actor=EarlyOptions.actor, progress=printing.note)
    if http is None:
        server.run("stdio")
    else:
        _serve_http(server, http, new_token=new_token)


def _serve_http(server: Any, address: str, *, new_token: bool) -> None:
    from holdfast.runtime.http_doors import door_sockets
    from holdfast.runtime.mcp import http_door

    opened = door_sockets.listener(address)
    token, file = door_setup.token_of(Home.default().create(), http_door.TOKEN, new=new_token)
    printing.say(f"serving {http_door.url(opened)}")
    sys.stdout.flush()
    where = f"is in {file}" if file else f"is that of {http_door.TOKEN.variable}"
    printing.note(f"the token {where}; clients send it as `Authorization: Bearer TOKEN`")
    http_door.serve(server, opened, token)
