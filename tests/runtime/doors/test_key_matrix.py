"""Every kind of credential is sent to every operation of every wire: it does as much as its key allows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from starlette.routing import BaseRoute, Route, WebSocketRoute
from tests.runtime.doors.walked_doors import (
    ONE,
    OTHER,
    TOKEN,
    TOKENS,
    TWO,
    Answer,
    Headers,
    WalkedDoors,
    addresses,
    links,
    run,
)

from holdfast.errors import InvalidArgument
from holdfast.runtime.access import permissions
from holdfast.runtime.access.access_keys import LINK, AccessKey
from holdfast.runtime.e2b.code_interpreter import InterpreterRoute
from holdfast.runtime.e2b.sandbox_caller import SandboxCaller
from holdfast.runtime.mcp.agent_server import AgentServer
from holdfast.runtime.mcp.agent_sessions import Default
from holdfast.runtime.mcp.task_tools import Action
from holdfast.runtime.serve import agent_rules, key_rules
from holdfast.runtime.serve.callers import ApiCaller

REFUSED = b"cannot do that: the key"
"""The words with which a wire tells that a key is not enough."""
ELSEWHERE = b"cannot find session"
STRONG = [scope for scope in permissions.SCOPES if scope != "host:mounts"]


@pytest.fixture(autouse=True)
def begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let operations end where their work would begin; the checks of doors before that are real."""

    async def begin(*_: Any, **__: Any) -> Any:
        raise InvalidArgument("it was let in")

    for name in ("brief", "in_session", "waits", "patiently", "while_there"):
        monkeypatch.setattr(ApiCaller, name, begin)
    monkeypatch.setattr(SandboxCaller, "in_session", begin)


def _operations(doors: WalkedDoors) -> Iterator[tuple[str, str, str, bool]]:
    """Yield the operations of wires: the name, method and path, and whether it is of code in a sandbox."""
    for route in doors.routes():
        name = _name(route)
        if name is None:
            continue
        methods = sorted((route.methods or {"GET"}) - {"HEAD"}) if isinstance(route, Route) else ["WS"]
        yield name, methods[0], str(getattr(route, "path", "")), isinstance(route, InterpreterRoute)


def _name(route: BaseRoute) -> str | None:
    endpoint = getattr(route, "endpoint", None)
    module = getattr(endpoint, "__module__", "")
    if isinstance(route, WebSocketRoute | Route) and module.endswith(".jupyter_app"):
        return f"jupyter.{endpoint.__name__}"  # type: ignore[union-attr]
    found = getattr(route, "unique_id", None)
    return found if found is not None and found.startswith(("e2b.", "swerex.")) else None


def _sent(name: str, token: str, session: str, key: str, *, of_code: bool) -> Headers:
    """Return the headers with which a wire's client sends a key, or the token that it got with that."""
    if name.startswith("jupyter."):
        return [(b"authorization", b"token " + token.encode())]
    if name.startswith("swerex."):
        return [(b"x-api-key", token.encode())]
    if name.startswith("e2b.control."):
        return [(b"x-api-key", token.encode())]
    own = TOKENS.of(key) if key != "none" else None
    given = own.access(session) if own is not None else token
    port = [(b"e2b-sandbox-port", b"49999")] if of_code else []
    return [(b"e2b-sandbox-id", session.encode()), (b"x-access-token", given.encode()), *port]


async def _each(
    doors: WalkedDoors, token: str, key: str, session: str = ONE
) -> list[tuple[str, str, Answer]]:
    found = []
    for name, method, path, of_code in _operations(doors):
        headers = [*_sent(name, token, session, key, of_code=of_code)]
        headers.append((b"content-type", b"application/json"))
        asked = re.sub(r"\{(session|sandbox)\}", session, path)
        asked = re.sub(r"\{[^}]*\}", "x", asked)
        body = b"{}" if method in ("POST", "PUT", "PATCH") else b""
        query = "path=/tmp/x&sandbox_ids=x"
        found.append((name, path, await doors.ask(method, asked, headers, query, body)))
    return found


def _is_of_one(path: str, name: str) -> bool:
    """Return whether an operation is of one session: its path has it, its token, or its wire finds it."""
    return "{s" in path or not name.startswith("e2b.control.")


def test_each_operation_has_a_rule_and_each_rule_an_operation(tmp_path: Path) -> None:
    """A path that no one thought about is closed to all keys; a rule must not outlive its path."""

    async def steps(doors: WalkedDoors) -> None:
        there = {name for name, *_ in _operations(doors)}
        assert there | {"e2b.ports", "page.ticket"} == set(key_rules.OF_WIRES)

    run(tmp_path, steps)
    needed = {scope for of in key_rules.OF_WIRES.values() for scope in of}
    assert needed <= set(permissions.SCOPES)


def test_a_role_reaches_its_operations_by_every_wire(tmp_path: Path) -> None:
    """In either spelling; a missing right stops an operation before it begins. The server's own token is
    refused nothing."""

    async def steps(doors: WalkedDoors) -> None:
        tried = 0
        for role in permissions.ROLES:
            of_e2b = role in ("member", "admin")
            made, text = doors.doors.callers.keys.create(role, [role], of_e2b=of_e2b)
            for name, path, answer in await _each(doors, text, made.id):
                allowed = made.scopes.issuperset(key_rules.OF_WIRES[name])
                assert (REFUSED in answer.body) is not allowed, (name, path, answer)
                assert answer.status != 401, (name, answer)
                tried += 1
        assert tried > 4 * 55
        for name, path, answer in await _each(doors, TOKEN, ""):
            assert REFUSED not in answer.body, (name, path)
            assert answer.status not in (401, 403), (name, answer)

    run(tmp_path, steps)


def _page(doors: WalkedDoors, key: AccessKey) -> str:
    """Return the key of a page that the holder of an access key has opened."""
    from holdfast.runtime.page.page_keys import PageKeys
    from holdfast.runtime.serve.access_key_requests import PageVisitor

    return PageKeys(TOKEN).key(PageVisitor(key.actor, key.id), 2e9)


def test_foreign_keys_open_nothing_of_a_wire(tmp_path: Path) -> None:
    """Revoked, expired, of a page, of a shared link, of a preview; and the tokens made with them before."""

    async def steps(doors: WalkedDoors) -> None:
        keys = doors.doors.callers.keys
        gone, of_gone = keys.create("gone", STRONG)
        gone_e2b, of_gone_e2b = keys.create("gone2", STRONG, of_e2b=True)
        late, of_late = keys.create("late", STRONG, seconds=1e-6)
        _, of_link = keys.create("guest", STRONG, kind=LINK, session=ONE)
        valid, _ = keys.create("valid", STRONG)
        keys.revoke("gone")
        keys.revoke("gone2")
        preview = links(ONE)[0][1].partition("=")[2]
        for token, key in (
            (of_gone, gone.id),
            (of_gone_e2b, gone_e2b.id),
            (of_late, late.id),
            (of_link, "none"),
            (_page(doors, valid), "none"),
            (preview, "none"),
            ("", "none"),
            ("e2b_" + "0" * 40, "0" * 12),
        ):
            for name, path, answer in await _each(doors, token, key):
                assert answer.status in (401, 403), (token[:8], name, path, answer)

    run(tmp_path, steps)


def test_a_key_of_one_session_reaches_no_other_by_any_wire(tmp_path: Path) -> None:
    """Nor lists of all; of its own session it does everything."""

    async def steps(doors: WalkedDoors) -> None:
        made, text = doors.doors.callers.keys.create("ci", STRONG, session=ONE)
        for name, path, answer in await _each(doors, text, made.id):
            refused = REFUSED in answer.body or ELSEWHERE in answer.body
            assert refused is not _is_of_one(path, name), (name, path, answer)
            assert answer.status != 401, (name, answer)
        for other in (TWO, OTHER, "sb"):
            for name, path, answer in await _each(doors, text, made.id, other):
                if name.startswith("jupyter."):
                    continue  # its paths have kernels, and only those of its session are found
                refused = REFUSED in answer.body or ELSEWHERE in answer.body
                assert refused or answer.status == 401, (name, path)
        for other in (TWO, "sb", "nothing"):
            path = f"/jupyter/{other}/api/kernels"
            answer = await doors.ask("GET", path, [(b"authorization", b"token " + text.encode())])
            assert (answer.status, ELSEWHERE in answer.body) == (404, True), answer

    run(tmp_path, steps)


def test_a_port_takes_the_right_to_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the key itself, and by the tokens that a client of E2B gets with it."""
    from holdfast.runtime.e2b.port_traffic import PortTraffic

    async def reached(_: Any, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 299, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    monkeypatch.setattr(PortTraffic, "__call__", reached)

    async def steps(doors: WalkedDoors) -> None:
        keys = doors.doors.callers.keys
        cases = (
            (keys.create("member", ["member"]), 299),
            (keys.create("viewer", ["viewer"]), 403),
            (keys.create("here", ["member"], session=ONE), 299),
            (keys.create("there", ["member"], session=TWO), 403),
        )
        for (made, text), status in cases:
            own = TOKENS.of(made.id)
            for header in (
                (b"authorization", b"Bearer " + text.encode()),
                (b"x-access-token", own.access(ONE).encode()),
                (b"e2b-traffic-access-token", own.traffic(ONE).encode()),
            ):
                headers = [(b"host", f"3000-{ONE}.localhost".encode()), header]
                assert (await doors.ask("GET", "/", headers)).status == status, (made.name, header)
        # A link lets in whoever has it, whatever else is sent.
        viewer = cases[1][0][1]
        headers = [
            (b"host", f"3000-{ONE}.localhost".encode()),
            (b"authorization", b"Bearer " + viewer.encode()),
        ]
        assert (await doors.ask("GET", "/", headers, links(ONE)[0][1])).status == 299

    run(tmp_path, steps)


def test_a_signed_address_ends_with_the_key_that_signed_it(tmp_path: Path) -> None:
    """It reads and writes as much as the key allows; an address of the server's token stays."""

    async def steps(doors: WalkedDoors) -> None:
        keys = doors.doors.callers.keys
        made, _ = keys.create("ci", ["viewer"])
        reading, writing = addresses([ONE], key=made.id)
        named: Headers = [(b"e2b-sandbox-id", ONE.encode())]
        for headers in (named, []):
            assert b"let in" in (await doors.ask("GET", "/files", headers, reading)).body
            assert REFUSED in (await doors.ask("POST", "/files", headers, writing)).body
        keys.revoke("ci")
        for headers in (named, []):
            assert (await doors.ask("GET", "/files", headers, reading)).status == 401
            assert b"let in" in (await doors.ask("GET", "/files", headers, addresses([ONE])[0])).body

    run(tmp_path, steps)


WIDER: tuple[tuple[dict[str, Any], str | None], ...] = (
    ({"templateID": "base"}, None),
    ({"templateID": "base", "allow_internet_access": True}, None),
    ({"templateID": "snap", "allow_internet_access": True}, "network:change"),
    ({"templateID": "base", "network": {"allowOut": ["10.0.0.1"]}}, "network:change"),
    ({"templateID": "base", "network": {"denyOut": ["0.0.0.0/0"]}}, None),
    ({"templateID": "base", "network": {"allowPublicTraffic": True}}, "ports:preview"),
)


def test_a_sandbox_with_more_than_the_default_takes_a_scope_more(tmp_path: Path) -> None:
    """As a session of our own API does."""

    async def steps(doors: WalkedDoors) -> None:
        _, text = doors.doors.callers.keys.create("ci", ["sessions:create"], of_e2b=True)
        headers = [(b"x-api-key", text.encode()), (b"content-type", b"application/json")]
        for body, scope in WIDER:
            answer = await doors.ask("POST", "/v2/sandboxes", headers, body=json.dumps(body).encode())
            assert (REFUSED in answer.body) is (scope is not None), (body, answer)
            assert (scope or "let in").encode() in answer.body

    run(tmp_path, steps)


def test_each_tool_and_action_has_a_rule(tmp_path: Path) -> None:
    """A tool or action without a rule is closed to all keys; reading a task does not need the right to
    write it."""
    from holdfast.base.home import Home

    server = AgentServer(Home(tmp_path), Default("x"))
    tools = {tool.name for tool in server._tool_manager.list_tools()}
    assert set(agent_rules.TOOLS) | {"go_back", "file", "sessions", "task"} == tools
    assert set(agent_rules.TASK_ACTIONS) <= set(get_args(Action))
    assert agent_rules.needed("unknown", {}) is None
    for tool in tools:
        assert set(agent_rules.needed(tool, {}) or ("?",)) <= set(permissions.SCOPES)


@pytest.mark.parametrize(
    ("tool", "arguments", "viewer", "member"),
    [
        ("run", {"command": "true"}, False, True),
        ("cell", {"code": "1"}, False, True),
        ("screen", {}, True, True),
        ("file", {"path": "/x"}, True, True),
        ("file", {"path": "/x", "content": ""}, False, True),
        ("file", {"path": "/x", "old": "a", "new": ""}, False, True),
        ("go_back", {}, False, True),
        ("go_back", {"copies": 2}, False, True),
        ("sessions", {}, True, True),
        ("sessions", {"new": "x"}, False, True),
        ("sessions", {"end": "x"}, False, False),
        ("task", {}, True, True),
        ("task", {"action": "goal", "text": "x"}, False, True),
        ("task", {"action": "done", "step": "1"}, False, True),
    ],
)
def test_a_tool_takes_the_scopes_of_its_actions(
    tool: str, arguments: dict[str, Any], viewer: bool, member: bool
) -> None:
    needed = frozenset(agent_rules.needed(tool, arguments) or ("?",))
    assert (needed <= permissions.expanded(["viewer"]), needed <= permissions.expanded(["member"])) == (
        viewer,
        member,
    )
