"""All doors of a server whose home has two sandboxes and a session, reached without a socket."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, Self
from urllib.parse import urlencode

from starlette.routing import BaseRoute, Route

from holdfast.base import serving_record
from holdfast.base.home import Home
from holdfast.runtime.cli.served_doors import ServedDoors
from holdfast.runtime.e2b.code_interpreter import InterpreterRoute
from holdfast.runtime.e2b.sandbox_access import SandboxTokens
from holdfast.runtime.http_doors.admission import App
from holdfast.runtime.mcp.http_door import agent_app
from holdfast.runtime.operations.context import no_progress
from holdfast.runtime.page.page_keys import PageKeys
from holdfast.runtime.serve.access_key_requests import PageVisitor
from holdfast.runtime.sessions.preview_grants import Grant
from holdfast.runtime.sign_in.issuer_settings import SignInSettings
from holdfast.runtime.store.row_details import SessionDetails

TOKEN = "the-token-of-this-server"
TOKENS = SandboxTokens(TOKEN)
ONE, TWO, GONE, OTHER = "a" * 12, "b" * 12, "c" * 12, "d" * 12
"""Two sandboxes, one that was removed, and a session that no client of E2B made."""
PEOPLE = SignInSettings.model_validate({"url": "http://localhost:8420"})
Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Answer:
    """The answer to a request; None of a status if there was none."""

    status: int | None
    body: bytes


class WalkedDoors:
    """The doors, while the block runs; everything is in the loop of the caller."""

    def __init__(self, folder: Path) -> None:
        self.doors = ServedDoors(Home(folder).create(), TOKEN, no_progress, sign_in=PEOPLE)
        self.app: App | None = None
        """What is asked in their place."""
        store = self.doors.callers.controller("agent:test").store
        for id_, made in ((ONE, True), (TWO, True), (OTHER, False)):
            details = SessionDetails().plus(sandbox={}) if made else SessionDetails()
            details = details.plus(previews={"3000": asdict(granted(id_))})
            store.add_session(f"s{id_[0]}", "image", {}, session_id=id_, state="running", details=details)
        self._entered = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for each in self.doors.beside:
            await self._entered.enter_async_context(each())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._entered.aclose()

    async def ask(
        self, method: str, path: str, headers: Headers, query: str = "", body: bytes = b"", raw: str = ""
    ) -> Answer:
        """Return the answer to one request, of HTTP or (method `WS`) for a WebSocket."""
        host = [] if any(name == b"host" for name, _ in headers) else [(b"host", b"localhost")]
        scope: dict[str, Any] = {
            "type": "websocket" if method == "WS" else "http",
            "http_version": "1.1",
            "scheme": "http",
            "path": path,
            "raw_path": (raw or path).encode("utf-8", "surrogateescape"),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [*host, *headers],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8420),
            "extensions": {"websocket.http.response": {}},
            **({"subprotocols": []} if method == "WS" else {"method": method}),
        }
        sent: list[dict[str, Any]] = []
        coming = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if method == "WS":
                return {"type": "websocket.connect" if not sent else "websocket.disconnect", "code": 1000}
            return coming.pop() if coming else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await (self.app or self.doors.app)(scope, receive, send)
        status = next((each["status"] for each in sent if "status" in each), None)
        return Answer(status, b"".join(each.get("body", b"") for each in sent))

    def routes(self) -> list[BaseRoute]:
        """Return every route that any of the doors has."""
        agents = agent_app(self.doors.callers.home, None, no_progress)  # made for the first request otherwise
        return [*routes_in(self.doors.app), *routes_in(agents)]


def routes_in(app: object) -> Iterator[BaseRoute]:
    """Yield the routes of all applications that one leads to, however they are joined."""
    left, seen = [app], set[int]()
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, BaseRoute):
            yield one
        elif isinstance(one, dict):
            left += one.values()
        elif isinstance(one, list | tuple | set | frozenset):
            left += one
        elif isinstance(one, MethodType):
            left += [one.__self__, one.__func__]
        elif isinstance(one, partial):
            left += [one.func, *one.args, *one.keywords.values()]
        elif isinstance(one, FunctionType):
            left += [cell.cell_contents for cell in one.__closure__ or ()]
        elif type(one).__module__.partition(".")[0] in ("holdfast", "starlette", "fastapi", "mcp"):
            slots = (name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ()))
            left += [getattr(one, name, None) for name in slots]
            left += getattr(one, "__dict__", {}).values()


def names_of(route: BaseRoute) -> Iterator[str]:
    """Yield a route as the table has it: a method and a path; all methods are `ANY`."""
    path = str(getattr(route, "path", "?"))
    if isinstance(route, InterpreterRoute):
        path += " (code)"
    elif path == "/health" and ".e2b." in route.endpoint.__module__:  # type: ignore[attr-defined]
        path += " (sandbox)"
    if not isinstance(route, Route):
        yield f"WS {path}"
    for method in sorted(route.methods or ["ANY"]) if isinstance(route, Route) else ():
        yield f"{method} {path}"


def placements(sandbox: str) -> list[Headers]:
    """Return the ways in which a request can be meant for the server, or for a sandbox."""
    named = (b"e2b-sandbox-id", sandbox.encode())
    ports = (b"49983", b"49999", b"3000")
    return [
        [],
        [named],
        *([named, (b"e2b-sandbox-port", port)] for port in ports),
        *([(b"host", port + b"-" + sandbox.encode() + b".localhost:8420")] for port in ports),
    ]


def presented(token: str) -> list[Headers]:
    """Return the headers in which a token can be sent: all together, or one of them."""
    given = token.encode()
    every = [
        (b"authorization", b"Bearer " + given),
        (b"x-api-key", given),
        (b"x-access-token", given),
        (b"e2b-traffic-access-token", given),
        (b"sec-websocket-protocol", b"holdfast.v1, bearer." + given),
    ]
    return [every, *([each] for each in every), [(b"x-api-key", b"e2b_" + given)]]


def signed(
    sandbox: str, operation: str, *, ends: float = 10**8, path: str = "/tmp/x", asked: str = "", key: str = ""
) -> str:
    """Return the query of an address that a sandbox's token has signed for a path; `asked` is a different
    one."""
    end = str(int(time.time() + ends))
    words = [path, operation, "", TOKENS.of(key).access(sandbox), end]
    digest = base64.b64encode(hashlib.sha256(":".join(words).encode()).digest()).decode().rstrip("=")
    return urlencode({"path": asked or path, "signature": "v1_" + digest, "signature_expiration": end})


def addresses(sandboxes: Iterable[str], **how: Any) -> list[str]:
    """Return signed addresses for both uses."""
    return [signed(each, operation, **how) for each in sandboxes for operation in ("read", "write")]


def granted(sandbox: str) -> Grant:
    """Return the grants for port 3000 of a sandbox: links, and a key that differs from all others."""
    return Grant(hashlib.sha256(sandbox.encode()).hexdigest(), links_until=time.time() + 10**8)


def links(sandbox: str, *, port: int = 3000, ends: float = 10**8) -> list[tuple[Headers, str]]:
    """Return a link to a port as browsers send it: in the address, and as a cookie of either name."""
    stamp = serving_record.stamp_of(TOKEN)
    token = granted(sandbox).token(stamp, sandbox, port, int(time.time() + ends))
    cookies = ("holdfast-preview", "__Host-holdfast-preview")
    return [
        ([], f"_holdfast={token}"),
        *(([(b"cookie", f"{name}={token}".encode())], "") for name in cookies),
    ]


def page_key() -> str:
    """Return the key of a web page of this server."""
    keys = PageKeys(TOKEN)
    made = keys.exchanged(keys.ticket(PageVisitor("person:ann"), time.time()), time.time())
    assert made is not None
    return made


def run(folder: Path, steps: Any) -> None:
    """Run steps with the doors of a home in this folder."""

    async def main() -> None:
        async with WalkedDoors(folder) as doors:
            await steps(doors)

    asyncio.run(main())
