"""Verbs that serve others: serve, mcp."""

from __future__ import annotations

import logging
import sys
from contextlib import nullcontext
from pathlib import Path

from holdfast.base import ids
from holdfast.base.home import Home
from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import SERVING, session_options
from holdfast.runtime.cli.caller import EarlyOptions
from holdfast.runtime.cli.grammar import examples, option
from holdfast.runtime.http_doors import door_setup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from holdfast.runtime.serve.api_server import Beside
    from holdfast.runtime.serve.callers import Callers
    from holdfast.runtime.sign_in.issuer_settings import SignInSettings

    Joining = Callable[[Callers, str], Beside]

PORT = "8420"


@examples("serve", "serve --listen 9000", "serve --preview-url https://previews.example.org")
def serve(
    serving: dict[str, Any] = SERVING,
    unix: Path | None = option("--unix", metavar="PATH", help="Serve on a unix socket, for you alone."),
    oidc: Path | None = option(
        "--oidc", metavar="FILE", help="Let people sign in by the issuers in this file (docs/sign-in.md)."
    ),
    trust_proxy_header: str | None = option(
        "--trust-proxy-header",
        metavar="HEADER=PEER",
        help="Let a proxy at this address name people in a header: X-Forwarded-User=10.0.0.5.",
    ),
    notices_to: list[str] | None = option(
        "--notices-to", metavar="NETWORK", help="Let notices be sent to this network, such as 10.0.0.0/8."
    ),
    new_token: bool = option("--new-token", help="Make a new token; the old one is no longer accepted."),
) -> None:
    """Serve sessions over HTTP and WebSockets, to holders of the token."""
    serve_home(
        unix=unix,
        new_token=new_token,
        people=_sign_in(oidc, trust_proxy_header),
        notices_to=notices_to or (),
        **serving,
    )


def serve_home(
    *,
    listen: str | None = None,
    unix: Path | None = None,
    anywhere: bool = False,
    host_name: Sequence[str] = (),
    origin: Sequence[str] = (),
    rate: float = 500,
    preview_url: str | None = None,
    pool: int | None = None,
    audit: bool = False,
    new_token: bool = False,
    people: SignInSettings | None = None,
    notices_to: Sequence[str] = (),
    joining: Joining | None = None,
) -> None:
    """Serve the sessions of the home until the process is asked to end; the options are the verb's.

    `people` says how people sign in. `joining` returns the server's companions, by its callers and its
    address.
    """
    door_setup.check_packages("serve", "serve")
    if listen is not None and unix is not None:
        raise InvalidArgument("cannot listen on both a port and a unix socket", hint="leave out one")
    from holdfast.base import serving_record
    from holdfast.runtime.cli.served_doors import ServedDoors
    from holdfast.runtime.cli.served_teams import ServedTeams
    from holdfast.runtime.http_doors import door_sockets
    from holdfast.runtime.serve import api_server, file_addresses

    below = "" if preview_url is None else file_addresses.preview_base(preview_url)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    home = Home.default().create()
    opened = door_sockets.inherited()
    if opened is None and unix is not None:
        opened = door_sockets.unix_listener(unix)
    elif opened is None:
        opened = door_sockets.listener(listen or PORT, anywhere=anywhere)
    # Last: where a server listens already, its token remains.
    token, file = door_setup.token_of(home, door_setup.SERVER, new=new_token)
    hosts = None if door_sockets.is_unix(opened) else [*host_name, *file_addresses.names_of(below)]

    def made(of: Home, secret: str = "") -> ServedDoors:
        return ServedDoors(
            of,
            token,
            printing.note,
            hosts=hosts,
            origins=origin,
            rate=rate,
            previews=below,
            actor=EarlyOptions.actor,
            audit=audit,
            secret=secret,
            notices_to=notices_to,
            sign_in=people,
        )

    doors = made(home)
    served = ServedTeams(doors, token, made)
    url = door_sockets.url(opened)
    record = serving_record.ServingRecord(
        url, below or door_sockets.browsed(opened), serving_record.stamp_of(token)
    )
    doors.callers.serving = record
    beside = [*doors.beside, *(joining(doors.callers, url) if joining is not None else ())]
    where = f"is in {file}" if file else f"is that of {door_setup.SERVER.variable}"

    def ready() -> None:
        printing.say(f"serving {url}")
        sys.stdout.flush()
        printing.note(f"the token {where}; clients send it as `Authorization: Bearer TOKEN`")

    try:
        with serving_record.announced(home, record), _pool(home, pool):
            api_server.serve(served, doors.callers, opened, ready, [*beside, served.running])
    finally:
        if unix is not None:
            unix.unlink(missing_ok=True)


def _sign_in(file: Path | None, header: str | None) -> SignInSettings | None:
    """Return how people sign in, if the command line says so."""
    if file is None and header is None:
        return None
    door_setup.check_packages("oidc", "let people sign in")
    from holdfast.runtime.sign_in import issuer_settings

    found = issuer_settings.SignInSettings.model_validate({}) if file is None else issuer_settings.read(file)
    if header is None:
        return found
    if found.proxy is not None:
        raise InvalidArgument(
            "cannot trust two proxies", hint="leave out --trust-proxy-header, or `proxy` in the file"
        )
    return found.model_copy(update={"proxy": issuer_settings.of_header(header)})


def _pool(home: Home, size: int | None) -> AbstractContextManager[None]:
    if size is None:
        return nullcontext()
    from holdfast.runtime.api.controller import Holdfast

    return Holdfast(home).pool.kept(size)


@examples("mcp", "mcp --image data --warm")
def mcp(
    session: str | None = option(
        "--session", metavar="NAME", help="The default session; otherwise one named after this folder."
    ),
    template: str | None = option("--template", help="Start sessions from this template."),
    options: dict[str, Any] = session_options("mcp"),
    warm: bool = option("--warm", help="Create sessions whose kernel is ready."),
    http: str | None = option("--http", metavar="PORT", help="Serve on this port of loopback."),
    new_token: bool = option(
        "--new-token", help="With --http: make a new token; the old one is no longer accepted."
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
