"""Every credential is sent to every route of every door; its reach is described in docs/security.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from starlette.routing import Match, Route, WebSocketRoute
from tests.runtime.doors.door_routes import ROUTES
from tests.runtime.doors.walked_doors import (
    GONE,
    ONE,
    TOKEN,
    TOKENS,
    TWO,
    Headers,
    WalkedDoors,
    addresses,
    links,
    names_of,
    page_key,
    placements,
    presented,
    run,
)

from holdfast.runtime.access.access_keys import LINK
from holdfast.runtime.e2b.port_traffic import PortTraffic
from holdfast.runtime.e2b.sandbox_access import PORT, SANDBOX
from holdfast.runtime.page.page_keys import PageKeys
from holdfast.runtime.serve.access_key_requests import PageVisitor

PAGE = Path(__file__).parents[3] / "docs" / "security.md"
FIRST = "| paths |"
ROWS = {name.strip(): row for row, text in ROUTES.items() for name in text.strip().splitlines()}
"""The row of each route."""
Reached = tuple[str, str | None]
"""A route, and the sandbox whose credential it was."""
WRONG = "f" * 64
TOKENS_SENT = {
    "wrong": [WRONG, ""],
    "server's": [TOKEN],
    "key of a page": [page_key()],
    "access": [TOKENS.access(ONE)],
    "traffic": [TOKENS.traffic(ONE)],
    "another sandbox's": [TOKENS.access(TWO), TOKENS.traffic(TWO)],
    "of one that was removed": [TOKENS.access(GONE), TOKENS.traffic(GONE)],
}
ADDRESSES_SENT = {
    "signed address": addresses([ONE]),
    "another sandbox's": addresses([TWO]),
    "of one that was removed": addresses([GONE]),
    "address or link ended or altered": [
        *addresses([ONE], ends=-(10**6)),
        *addresses([ONE], asked="/etc/shadow"),
        *(each + "&path=/etc/shadow" for each in addresses([ONE])),
        *(each.replace("v1_", "v1_x") for each in addresses([ONE])),
        *(each.replace("signature_expiration=", "signature_expiration=9") for each in addresses([ONE])),
    ],
}
LINKS_SENT = {
    "link of a preview": links(ONE),
    "another sandbox's": links(TWO),
    "of one that was removed": links(GONE),
    "address or link ended or altered": [
        *links(ONE, ends=-10),
        *links(ONE, port=3001),
        *((headers, query.replace("=", "=9")) for headers, query in links(ONE)[:1]),
    ],
}
REFUSALS = (401, 403, 404, 405, 501, 502)
"""Of requests that reach no route. The later ones are for those who may reach others there."""
OWNERS = {"another sandbox's": TWO, "of one that was removed": GONE}


def table() -> dict[str, dict[str, bool]]:
    """Return the page's table: by row and kind of credential, whether it opens the routes."""
    lines = PAGE.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(FIRST))
    cells = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        cells.append([each.strip() for each in line.strip("|").split("|")])
    (_, *columns), _, *rows = cells
    assert {cell for _, *row in rows for cell in row} == {"opens", ""}
    return {
        row: {column: cell == "opens" for column, cell in zip(columns, found, strict=True)}
        for row, *found in rows
    }


def credentials(doors: WalkedDoors) -> dict[str, list[str]]:
    """Return keys of the home, in both forms, and all that is derived from them."""
    keys, pages = doors.doors.callers.keys, PageKeys(TOKEN)
    made, text = keys.create("all", ["admin"])
    _, of_e2b = keys.create("e2b", ["admin"], of_e2b=True)
    there, _ = keys.create("there", ["admin"], session=TWO)
    gone, of_gone = keys.create("gone", ["admin"])
    _, late = keys.create("late", ["admin"], seconds=1e-6)
    _, link = keys.create("guest", ["admin"], kind=LINK, session=ONE)
    keys.revoke("gone")
    own, of_other, of_none = (TOKENS.of(each.id) for each in (made, there, gone))
    return {
        "access key": [text, of_e2b],
        "key of a page": [pages.key(PageVisitor("person:ann", made.id), 2e9)],
        "access": [own.access(ONE)],
        "traffic": [own.traffic(ONE)],
        "wrong": [
            of_gone,
            late,
            link,
            pages.key(PageVisitor("person:ann", gone.id), 2e9),
            of_none.access(ONE),
            of_none.traffic(ONE),
            of_other.access(ONE),
            of_other.traffic(ONE),
        ],
    }


def requests(of_keys: dict[str, list[str]]) -> Iterator[tuple[str, Headers, str]]:
    """Yield each credential in each form: its column, and the headers and query with which it is sent.

    A token in one header is sent by fewer names than one in all: the rules for both are the same.
    """
    everywhere = placements(ONE)
    for placed in everywhere:
        yield "none", placed, ""
        for column, found in ADDRESSES_SENT.items():
            yield from ((column, placed, query) for query in found)
        for column, sent in LINKS_SENT.items():
            yield from ((column, placed + headers, query) for headers, query in sent)
        for column, tokens in of_keys.items():
            for forms in map(presented, tokens):
                yield from ((column, placed + form, "") for form in (forms if not placed else forms[:1]))
        for column, tokens in TOKENS_SENT.items():
            gone = placements(GONE) if OWNERS.get(column) == GONE else []
            for token in tokens:
                yield from ((column, found + presented(token)[0], "") for found in gone)
                forms = presented(token)
                few = forms if placed in everywhere[:4] else forms[:1]
                yield from ((column, placed + form, "") for form in few)


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[Reached]:
    """Note which routes requests arrive at, which answer nothing but that."""
    found: list[Reached] = []

    async def note(scope: Any, send: Any, name: str, sandbox: str | None) -> None:
        found.append((name, sandbox))
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
            return
        await send({"type": "http.response.start", "status": 299, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def route(self: Any, scope: Any, receive: Any, send: Any) -> None:
        match, _ = self.matches(scope)
        assert match in (Match.FULL, Match.PARTIAL)
        names = list(names_of(self))
        method = scope.get("method", "WS")
        name = next((each for each in names if each.split()[0] in (method, "ANY")), f"{method} of {names[0]}")
        await note(scope, send, name, scope.get(SANDBOX))

    async def port(self: Any, scope: Any, receive: Any, send: Any) -> None:
        await note(scope, send, "ANY (port)", scope[PORT].sandbox)

    for kind in (APIRoute, Route, WebSocketRoute):
        monkeypatch.setattr(kind, "handle", route)
    monkeypatch.setattr(PortTraffic, "__call__", port)
    return found


def test_each_route_of_each_door_is_in_one_row(tmp_path: Path) -> None:
    async def steps(doors: WalkedDoors) -> None:
        there = {name for route in doors.routes() for name in names_of(route)} | {"ANY (port)"}
        assert {"POST /sandboxes", "WS /v1/channels", "POST /execute (code)", "ANY /mcp"} <= there
        assert there == set(ROWS)

    run(tmp_path, steps)
    named = [name.strip() for text in ROUTES.values() for name in text.strip().splitlines()]
    assert [name for name, count in Counter(named).items() if count > 1] == []
    assert list(table()) == list(ROUTES)


@pytest.mark.parametrize("row", ROUTES)
def test_each_credential_reaches_the_tables_doors(row: str, tmp_path: Path, reached: list[Reached]) -> None:
    """By whatever header it is sent, and by whatever name or header the request is meant for a sandbox."""
    observed: set[tuple[str, str]] = set()
    strange: set[tuple[str, str, str | None]] = set()
    names = [name.strip() for name in ROUTES[row].strip().splitlines()]

    async def steps(doors: WalkedDoors) -> None:
        of_keys = credentials(doors)
        for name in names:
            method, path = name.split()[:2]
            method = "POST" if method == "ANY" else method
            path = "/v1/sessions" if path == "(port)" else re.sub(r"\{[^}]*\}", ONE, path)
            for column, headers, query in requests(of_keys):
                reached.clear()
                answer = await doors.ask(method, path, headers, query)
                for route, sandbox in reached:
                    if sandbox in (ONE, None) or column not in OWNERS:
                        observed.add((route, column))
                    if sandbox not in (None, OWNERS.get(column, ONE)) or sandbox == GONE:
                        strange.add((route, column, sandbox))
                assert reached or answer.status in REFUSALS, (name, column, headers, answer)

    run(tmp_path, steps)
    said = table()
    assert strange == set()
    opened = {(route, column) for route, of in ROWS.items() for column, opens in said[of].items() if opens}
    assert observed - opened == set()
    # Some paths are of several doors, so more is reached than was meant; never less.
    assert {each for each in opened if each[0] in names} - observed == set()


@pytest.mark.parametrize("row", ROUTES)
def test_a_header_that_counts_comes_once(row: str, tmp_path: Path, reached: list[Reached]) -> None:
    """Of two, a program on the way could have read the other one; even if one of them is right."""
    tried = 0
    tokens = (TOKEN, f"e2b_{TOKEN}", TOKENS.access(ONE), TOKENS.traffic(ONE))
    single = [header for token in tokens for form in presented(token) if len(form) == 1 for header in form]

    async def steps(doors: WalkedDoors) -> None:
        nonlocal tried
        for name in (name.strip() for name in ROUTES[row].strip().splitlines()):
            method, path = name.split()[:2]
            method = "POST" if method == "ANY" else method
            path = "/v1/sessions" if path == "(port)" else re.sub(r"\{[^}]*\}", ONE, path)
            for placed, right in ((placed, right) for placed in placements(ONE)[1::2] for right in single):
                reached.clear()
                await doors.ask(method, path, [*placed, right])
                if not reached:
                    continue
                if table()[row]["none"]:
                    continue  # where everyone is let in, no header counts
                of_sandbox = any(sandbox is not None for _, sandbox in reached)
                wrong = (right[0], right[1][:-4] + b"0000")
                sent = [[right, wrong], [wrong, right], [right, right]]
                # Doors that know no sandboxes do not look at the headers that name one.
                sent += [
                    [(key, value.replace(ONE.encode(), TWO.encode())), right]
                    for key, value in placed
                    if of_sandbox
                ]
                for headers in sent:
                    reached.clear()
                    answer = await doors.ask(method, path, [*placed, *headers])
                    assert (reached, answer.status in (401, 403, 421)) == ([], True), (name, headers)
                    tried += 1

    run(tmp_path, steps)
    assert tried or not any(table()[row].values()) or table()[row]["none"]


def test_the_attack_on_the_control_plane_that_once_succeeded(tmp_path: Path, reached: list[Reached]) -> None:
    """A path of the control plane with the id and a token of a sandbox, and without a key."""

    async def steps(doors: WalkedDoors) -> None:
        for name, token, owner in (
            (b"e2b-traffic-access-token", TOKENS.traffic(ONE), ONE),
            (b"x-access-token", TOKENS.access(ONE), ONE),
            (b"e2b-traffic-access-token", TOKENS.traffic(GONE), GONE),
        ):
            for method, path in (
                ("GET", "/v2/sandboxes"),
                ("POST", "/v2/sandboxes"),
                ("GET", f"/sandboxes/{TWO}"),
                ("DELETE", f"/sandboxes/{TWO}"),
            ):
                headers = [(b"e2b-sandbox-id", owner.encode()), (name, token.encode())]
                assert (await doors.ask(method, path, headers)).status == 401, (method, path)
        assert reached == []
        key = [(b"x-api-key", f"e2b_{TOKEN}".encode()), (b"e2b-sandbox-id", ONE.encode())]
        assert (await doors.ask("GET", "/v2/sandboxes", key)).status == 299

    run(tmp_path, steps)


def test_removed_sandboxes_are_reported_in_the_words_of_the_wire(tmp_path: Path) -> None:
    """Clients take that status for the end of a sandbox; no one else learns of it."""

    async def steps(doors: WalkedDoors) -> None:
        for id_, token, status in (
            (GONE, TOKENS.access(GONE), 502),
            (GONE, TOKENS.access(ONE), 401),
            (GONE, WRONG, 401),
        ):
            headers = [(b"e2b-sandbox-id", id_.encode()), (b"x-access-token", token.encode())]
            answer = await doors.ask("POST", "/process.Process/List", headers)
            assert answer.status == status
            assert (b"was not found" in answer.body) == (status == 502)

    run(tmp_path, steps)
