"""Keys of every role are sent to every path of our own API: they reach what their scopes allow."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from tests.runtime.doors.walked_doors import ONE, OTHER, TWO, WalkedDoors, run

from holdfast.errors import InvalidArgument
from holdfast.runtime.access import permissions
from holdfast.runtime.serve import key_rules
from holdfast.runtime.serve.call_threads import CallThreads
from holdfast.runtime.serve.calls.call_table import CALLS


@pytest.fixture(autouse=True)
def begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let operations end where their work in threads would begin: nothing is asked of an engine."""

    def begin(*_: Any) -> Any:
        raise InvalidArgument("it was let in")

    monkeypatch.setattr(CallThreads, "run", begin)
    monkeypatch.setattr(CallThreads, "begin", begin)


def _own(doors: WalkedDoors) -> dict[str, Any]:
    """Return the routes of our own API by the ids of their operations."""
    found = {}
    for route in doors.routes():
        path = str(getattr(route, "path", ""))
        module = getattr(getattr(route, "endpoint", None), "__module__", "")
        if module.startswith("holdfast.runtime.serve.routes."):
            found[getattr(route, "unique_id", getattr(route, "name", path))] = route
    return found


def _bearer(text: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", b"Bearer " + text.encode()), (b"content-type", b"application/json")]


def _code(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return ""


def test_each_operation_has_a_rule_and_each_rule_an_operation(tmp_path: Path) -> None:
    """A path that no one thought about is closed to all keys; a rule must not outlive its path."""

    async def steps(doors: WalkedDoors) -> None:
        assert set(key_rules.OPERATIONS) == set(_own(doors))

    run(tmp_path, steps)
    assert set(key_rules.CALLS) == set(CALLS)
    needed = {scope for of in [*key_rules.OPERATIONS.values(), *key_rules.CALLS.values()] for scope in of}
    assert needed <= set(permissions.SCOPES)
    assert set(permissions.SCOPES) - needed == {"secrets:use", "host:mounts"}  # of fields of requests


@pytest.mark.parametrize("role", permissions.ROLES)
def test_a_role_reaches_its_operations(role: str, tmp_path: Path) -> None:
    """Nothing without the scope is even begun; with it, the answer is the operation's own."""

    async def steps(doors: WalkedDoors) -> None:
        _, text = doors.doors.callers.keys.create("ci", [role])
        has = permissions.expanded([role])
        tried = 0
        for operation, route in _own(doors).items():
            if not isinstance(route, APIRoute) or operation == "server.end_wait":
                continue
            method = sorted(route.methods or ())[0]
            path = re.sub(r"\{[^}]*\}", OTHER, route.path)
            body = b"{}" if method in ("POST", "PUT", "PATCH") else b""
            answer = await doors.ask(method, path, _bearer(text), body=body)
            allowed = has.issuperset(key_rules.OPERATIONS[operation])
            refused = answer.status == 403 and _code(answer.body) == "not_permitted"
            assert refused is not allowed, (operation, answer)
            tried += 1
        assert tried > 100

    run(tmp_path, steps)


def test_a_key_for_one_session_reaches_no_other(tmp_path: Path) -> None:
    """Nor lists of all, and it does not learn which there are; by name or id."""

    async def steps(doors: WalkedDoors) -> None:
        _, text = doors.doors.callers.keys.create("ci", ["admin"], session=ONE)
        told = set()
        for operation, route in _own(doors).items():
            if not isinstance(route, APIRoute) or operation.startswith("server."):
                continue
            method = sorted(route.methods or ())[0]
            body = b"{}" if method in ("POST", "PUT", "PATCH") else b""
            for ref in (TWO, "sb", "nothing", TWO[:6]):
                path = route.path.replace("{session}", ref)
                path = re.sub(r"\{[^}]*\}", "x", path)
                answer = await doors.ask(method, path, _bearer(text), body=body)
                if "{session}" in route.path:
                    assert (answer.status, _code(answer.body)) == (404, "session_not_found"), (operation, ref)
                    told.add(answer.body.replace(ref.encode(), b"REF"))
                else:
                    assert (answer.status, _code(answer.body)) == (403, "not_permitted"), operation
        assert len(told) == 1
        for ref in (ONE, "sa"):
            answer = await doors.ask("GET", f"/v1/sessions/{ref}/journal", _bearer(text))
            assert (answer.status, b"let in" in answer.body) == (400, True), answer

    run(tmp_path, steps)


@pytest.mark.parametrize(
    ("path", "fields", "scope"),
    [
        ("/v1/sessions", {"mounts": ["/etc:/mnt"]}, "host:mounts"),
        ("/v1/sessions", {"secrets": ["token"]}, "secrets:use"),
        ("/v1/sessions", {"network": "open"}, "network:change"),
        ("/v1/sessions", {"allow": ["10.0.0.1"]}, "network:change"),
        ("/v1/sessions", {"domains": ["example.org"]}, "network:change"),
        (f"/v1/sessions/{ONE}/fork", {"network": "open"}, "network:change"),
        ("/v1/snapshots/x/restore", {"allow": ["10.0.0.1"]}, "network:change"),
        ("/v1/snapshots/x/fork", {"network": "internet"}, "network:change"),
        (f"/v1/sessions/{ONE}/lifetime", {"life": 1, "then": "remove"}, "sessions:remove"),
    ],
)
def test_options_that_reach_further_take_a_scope_more(
    path: str, fields: dict[str, Any], scope: str, tmp_path: Path
) -> None:
    """A member starts sessions, and gets neither the machine's folders nor its network by that."""

    async def steps(doors: WalkedDoors) -> None:
        _, text = doors.doors.callers.keys.create("ci", ["member"])
        method = "PATCH" if path.endswith("lifetime") else "POST"
        for sent in (json.dumps(fields), json.dumps({**fields, "reason": "x"})):
            answer = await doors.ask(method, path, _bearer(text), body=sent.encode())
            assert answer.status == 403, answer
            assert scope in answer.body.decode()

    run(tmp_path, steps)


def test_invalid_links_open_nothing(tmp_path: Path) -> None:
    """A revoked one, and two links in one request."""

    async def steps(doors: WalkedDoors) -> None:
        keys = doors.doors.callers.keys
        _, text = keys.create("ci", ["admin"])
        assert (await doors.ask("GET", "/v1/sessions", _bearer(text))).status == 400
        twice = [*_bearer(text), *_bearer(text)]
        assert (await doors.ask("GET", "/v1/sessions", twice)).status == 401
        keys.revoke("ci")
        assert (await doors.ask("GET", "/v1/sessions", _bearer(text))).status == 401

    run(tmp_path, steps)


def test_health_is_for_every_valid_key(tmp_path: Path) -> None:
    """A client finds out that its key is wrong before it does anything."""

    async def steps(doors: WalkedDoors) -> None:
        _, text = doors.doors.callers.keys.create("ci", ["files:read"], session=ONE)
        assert (await doors.ask("GET", "/health", _bearer(text))).status == 200
        assert (await doors.ask("GET", "/health", _bearer(text[:-1] + "!"))).status == 401

    run(tmp_path, steps)
