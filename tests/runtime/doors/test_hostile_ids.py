"""Whatever ids a request names, to any route of any door: an answer, nothing reached, and no failure."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, WebSocketRoute
from tests.runtime.doors.walked_doors import (
    GONE,
    ONE,
    OTHER,
    TOKEN,
    TOKENS,
    TWO,
    Answer,
    Headers,
    WalkedDoors,
    run,
)

from holdfast.base import run_dir

IDS = (
    "..",
    ".",
    "../../etc/passwd",
    "..\\..\\x",
    "/etc/passwd",
    "%2e%2e%2f",
    "\0",
    "a\0b",
    "a\nb",
    "a\r\nSet-Cookie: x=y",
    " ",
    "-rf",
    "~root",
    "x" * 80,
    "x" * 60_000,
    "é",
    "日本語",
    "\U0001f600",
    "\ufffd",
    "\u202e",
    "E" * 12,
    "٣٣٣",
    "';--",
    "*",
    "${HOME}",
    "{{7*7}}",
    "None",
    "-1",
    "1e999",
    GONE,
)
OWN: Headers = [(b"authorization", f"Bearer {TOKEN}".encode())]
KEY: Headers = [(b"x-api-key", TOKEN.encode())]
QUIET = {
    "GET /swerex/{session}/is_alive": b'"is_alive":false',
    "GET /v1/artifacts": b"[]",
    "GET /v1/audit": b"[]",
    "GET /snapshots": b"[]",
    "GET /v1/route": b'"session":null',
    "GET /sandboxes/metrics": b'{"sandboxes":{}}',
}
"""Routes that answer with 200 that there is nothing, and with what."""
Met = list[tuple[str, str, Answer]]


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Note what is connected to: a session's folder; and let no engine be found."""
    found: list[str] = []

    def connect(folder: Any, *_: Any) -> Any:
        found.append(str(folder))
        raise FileNotFoundError(folder)

    monkeypatch.setattr(run_dir, "connect", connect)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine")
    return found


def wrong(met: Met, caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, Answer]]:
    """Return the failed answers, and the answers that had an effect."""
    assert [each.getMessage()[:300] for each in caplog.records if each.levelno >= logging.ERROR] == []
    return [
        (route, id_[:40], answer)
        for route, id_, answer in met
        if answer.status == 500
        or ((answer.status or 999) < 300 and QUIET.get(route, b"\0") not in answer.body)
        or b"Traceback" in answer.body
        or b"/home-" in answer.body
    ]


def named(routes: list[BaseRoute]) -> Iterator[tuple[str, str, BaseRoute]]:
    """Yield method, path and route of every place where a request can name something."""
    for route in routes:
        if isinstance(route, APIRoute):
            yield from ((method, route.path, route) for method in sorted(route.methods or ()))
        elif isinstance(route, WebSocketRoute):
            yield "WS", route.path, route


def queries_of(route: BaseRoute, id_: str) -> list[str]:
    """Return queries: none, and with this text in each field that a route reads, and in all."""
    fields = route.dependant.query_params if isinstance(route, APIRoute) else ()
    names: set[str] = set()
    for each in fields:
        inner = getattr(each.field_info.annotation, "model_fields", None)
        names |= {each.alias} if inner is None else {info.alias or name for name, info in inner.items()}
    every = [{}, *({name: id_} for name in sorted(names)), dict.fromkeys(names, id_)]
    return [urlencode(each) for each in every]


def bodies_of(route: BaseRoute, id_: str) -> Iterator[bytes]:
    """Yield bodies: none of a form, and one with this text in every field that the route reads."""
    yield b"{}"
    field = route.body_field if isinstance(route, APIRoute) else None
    fields = getattr(field.field_info.annotation, "model_fields", {}) if field is not None else {}
    if fields:
        yield json.dumps({info.alias or name: id_ for name, info in fields.items()}).encode()


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(number, marks=pytest.mark.thorough) for number in (1, 2, 3))]
)
def test_ids_in_paths_queries_and_bodies(
    part: int, tmp_path: Path, reached: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """With the server's own token, so that nothing but the id is wrong."""
    met: Met = []

    async def steps(doors: WalkedDoors) -> None:
        for method, path, route in list(named(doors.routes()))[part::4]:
            if path.startswith("/contexts"):
                continue  # of a sandbox that there is: its kernels are the session's own affair
            key = OWN if path.startswith(("/v1", "/api", "/health", "/metrics")) else KEY
            if "{" not in path and len(queries_of(route, "")) < 3:
                continue
            for id_ in IDS:
                asked = re.sub(r"\{[^}]*\}", lambda _, id_=id_: id_, path)  # type: ignore[misc]
                headers = [*key, (b"content-type", b"application/json")]
                raw = quote(asked, errors="replace")
                for query, body in product(queries_of(route, id_), bodies_of(route, id_)):
                    answer = await doors.ask(method, asked, headers, query, body, raw)
                    met.append((f"{method} {path}", id_, answer))

    run(tmp_path / "home-of-this-test", steps)
    assert len(met) > 500
    assert 401 not in {answer.status for route, _, answer in met if not route.endswith("/files")}
    assert wrong(met, caplog) == []
    assert reached == []


def test_ids_of_sandboxes_in_headers_and_names(
    tmp_path: Path, reached: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Each with the tokens that the server itself would give to that id."""
    met: Met = []
    paths = (("POST", "/process.Process/Start"), ("GET", "/files"), ("GET", "/contexts"), ("GET", "/health"))
    ports = ("", "0", "-1", "65536", "99999999999", "٣", "49983 ", "3000,49983", "\0", "x" * 5000)

    async def steps(doors: WalkedDoors) -> None:
        for id_ in IDS:
            given = id_.encode("utf-8")
            tokens = [
                (b"x-access-token", TOKENS.access(given.decode("latin-1")).encode()),
                (b"e2b-traffic-access-token", TOKENS.traffic(given.decode("latin-1")).encode()),
            ]
            for method, path in (*paths, ("WS", "/")):
                for host in (
                    [],
                    [(b"host", b"3000-" + given + b".localhost")],
                    [(b"host", b"49983-" + given)],
                ):
                    headers = [*host, (b"e2b-sandbox-id", given), *tokens]
                    met.append((f"{method} {path}", id_, await doors.ask(method, path, headers)))
        for port in ports:
            for id_ in (GONE, "../x"):
                headers = [(b"e2b-sandbox-id", id_.encode()), (b"e2b-sandbox-port", port.encode())]
                headers.append((b"x-access-token", TOKENS.access(id_).encode()))
                for method, path in paths:
                    met.append((f"{method} {path}", port, await doors.ask(method, path, headers)))

    run(tmp_path / "home-of-this-test", steps)
    assert len(met) > 400
    refused = {answer.status for route, _, answer in met if route != "GET /health"}
    assert refused <= {400, 401, 404, 421, 502}, refused
    assert wrong([each for each in met if each[0] != "GET /health"], caplog) == []
    assert reached == []


def test_a_token_reaches_no_other_session_by_its_id(
    tmp_path: Path, reached: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither another sandbox nor a session that was made otherwise, in any place of a request."""
    met: Met = []

    async def steps(doors: WalkedDoors) -> None:
        own = [(b"x-access-token", TOKENS.access(ONE).encode())]
        own += [(b"e2b-traffic-access-token", TOKENS.traffic(ONE).encode())]
        for other in (TWO, OTHER, f"s{TWO[0]}"):
            id_ = other.encode()
            for headers in (
                [(b"e2b-sandbox-id", id_)],
                [(b"e2b-sandbox-id", id_), (b"e2b-sandbox-port", b"49999")],
                [(b"e2b-sandbox-id", id_), (b"e2b-sandbox-port", b"3000")],
                [(b"host", b"3000-" + id_ + b".localhost")],
                [(b"host", b"49983-" + id_ + b".localhost"), (b"e2b-sandbox-id", ONE.encode())],
                [(b"host", b"49999-" + id_ + b".localhost"), (b"e2b-sandbox-id", ONE.encode())],
                [(b"e2b-sandbox-id", ONE.encode()), (b"e2b-sandbox-id", id_)],
            ):
                for method, path in (
                    ("POST", "/process.Process/List"),
                    ("GET", "/files"),
                    ("GET", "/contexts"),
                    ("GET", f"/sandboxes/{other}"),
                    ("GET", f"/v1/sessions/{other}"),
                    ("GET", f"/swerex/{other}/is_alive"),
                ):
                    answer = await doors.ask(method, path, [*headers, *own], "path=/etc/passwd")
                    met.append((f"{method} {path}", other, answer))

    run(tmp_path / "home-of-this-test", steps)
    assert {answer.status for _, _, answer in met} <= {401, 403, 502}
    assert wrong(met, caplog) == []
    assert reached == []
