"""The door for browsers: its files and their policy, the exchange of tickets, and the API behind a key."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.runtime.serve.gated_doors import gated

from holdfast.runtime.access.access_keys import LINK, AccessKeys
from holdfast.runtime.http_doors.admission import Admission
from holdfast.runtime.page import page_door
from holdfast.runtime.page.page_door import PageDoor
from holdfast.runtime.page.page_keys import PageKeys
from holdfast.runtime.serve.server_app import ApiDoor

TOKEN = "the-token-of-this-server"
HERE = "http://localhost:8420"
HOLDER = {"authorization": f"Bearer {TOKEN}"}


async def api(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the actor of a request."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": dict(scope["headers"])[b"holdfast-actor"].decode()})
        return
    actors = [value.decode() for name, value in scope["headers"] if name == b"holdfast-actor"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps(actors).encode()})


@pytest.fixture
def built(tmp_path: Path) -> Path:
    folder = tmp_path / "built"
    folder.mkdir()
    (folder / "index.html").write_text("<holdfast-page></holdfast-page>")
    (folder / "page.js").write_text("1")
    (folder / "notes").write_text("not for browsers")
    (tmp_path / "secret.txt").write_text("outside")
    return folder


@pytest.fixture
def client(built: Path) -> TestClient:
    return served(built)


def served(folder: Path) -> TestClient:
    """Return a client for the page and the API, at the server's own address."""
    rules, keys = Admission(TOKEN, keys=AccessKeys(folder.parent)), PageKeys(TOKEN)
    page = PageDoor(rules, keys, folder)
    own = ApiDoor(rules, api, lambda key: keys.visitor(key, time.time()))
    return TestClient(gated(page, own, other=api), base_url=HERE)


def exchange(client: TestClient, ticket: str | bytes, **headers: str) -> Any:
    """Return the answer to the page that a link with a ticket opened."""
    text = ticket.encode() if isinstance(ticket, str) else ticket
    return client.post("/page/keys", headers={b"authorization": b"Bearer " + text, **_bytes(headers)})


def _bytes(headers: dict[str, str]) -> dict[bytes, bytes]:
    return {name.encode(): value.encode() for name, value in headers.items()}


def key(client: TestClient, actor: str = "person:ann") -> str:
    """Return the key of a page that was opened."""
    ticket = client.post("/page/tickets", headers={**HOLDER, "holdfast-actor": actor}).json()["ticket"]
    answer = exchange(client, ticket)
    assert answer.status_code == 201
    return str(answer.json()["key"])


def test_strangers_get_the_files_and_nothing_beside_them(client: TestClient) -> None:
    assert client.get("/").text == "<holdfast-page></holdfast-page>"
    assert client.get("/page/page.js").headers["content-type"] == "text/javascript; charset=utf-8"
    for other in ("notes", "secret.txt", "..%2fsecret.txt", "%2e%2e/secret.txt", "index.html%00", "a/b"):
        answer = client.get(f"/page/{other}")
        assert (answer.status_code, "outside" in answer.text) == (404, False), other
    assert client.get("/v1/sessions").status_code == 401


def test_each_answer_forbids_scripts_and_hosts_that_are_not_the_pages(client: TestClient) -> None:
    """Also the answer of a page that shows it in a frame."""
    for path in ("/", "/page/page.js", "/page/none.js"):
        headers = client.get(path).headers
        policy = {part.split()[0]: part.split()[1:] for part in headers["content-security-policy"].split(";")}
        assert policy["default-src"] == ["'none'"]
        assert policy["script-src"] == policy["connect-src"] == ["'self'"]
        assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == ["'none'"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_where_the_page_was_not_built_one_line_says_how(tmp_path: Path) -> None:
    answer = served(tmp_path / "nothing").get("/")
    assert (answer.status_code, answer.text) == (503, page_door.NOT_BUILT)
    assert answer.text.count("\n") == 1


def test_a_key_opens_the_api_for_its_actor_and_no_other(client: TestClient) -> None:
    """A page cannot act for someone else by a header."""
    headers = {"authorization": f"Bearer {key(client)}", "holdfast-actor": "agent:coder"}
    assert client.get("/v1/sessions", headers=headers).json() == ["person:ann"]
    with client.websocket_connect(
        f"{HERE.replace('http', 'ws')}/v1/channels",
        subprotocols=["holdfast.v1", f"bearer.{key(client)}"],
        headers={"origin": HERE},
    ) as socket:
        assert socket.receive_text() == "person:ann"


def test_tickets_are_for_holders_of_the_token_and_keys_are_not_tokens(client: TestClient) -> None:
    assert client.post("/page/tickets").status_code == 401
    assert client.post("/page/tickets", headers={"authorization": f"Bearer {key(client)}"}).status_code == 401
    assert client.post("/page/tickets", headers={**HOLDER, "holdfast-actor": "\x7f"}).status_code == 400


def test_a_wrong_ticket_is_refused_in_one_line_with_the_way_to_a_new_one(client: TestClient) -> None:
    ticket = client.post("/page/tickets", headers=HOLDER).json()["ticket"]
    assert exchange(client, ticket).status_code == 201
    for sent in (ticket, "x", "", b"x" * 5000, b"\xff" * 400):
        answer = exchange(client, sent)
        assert answer.status_code == 401
        assert "holdfast open" in answer.json()["error"]["hint"]
    assert client.post("/page/keys").status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://3000-work.localhost:8420"},
        {"origin": "http://localhost:9999"},
        {"origin": "null"},
        {"host": "evil.test"},
    ],
)
def test_pages_of_other_places_get_neither_files_nor_keys(
    client: TestClient, headers: dict[str, str]
) -> None:
    """Those of a session's ports are such: their names are not the server's own."""
    ticket = client.post("/page/tickets", headers=HOLDER).json()["ticket"]
    assert exchange(client, ticket, **headers).status_code in (403, 421)
    assert client.get("/", headers=headers).status_code in (403, 421)
    made = {"authorization": f"Bearer {key(client)}"}
    assert client.get("/v1/sessions", headers={**headers, **made}).status_code in (403, 421)


def test_a_form_of_another_page_is_not_an_exchange(client: TestClient) -> None:
    """Any page can send one without asking."""
    ticket = client.post("/page/tickets", headers=HOLDER).json()["ticket"]
    for kind in ("text/plain", "application/json"):
        body = json.dumps({"ticket": ticket})
        answer = client.post("/page/keys", content=body, headers={"content-type": kind})
        assert answer.status_code == 401


def test_a_holder_of_an_access_key_opens_a_page_with_its_rights(built: Path) -> None:
    """The page acts for the key, whatever it says, and ends with it; a page cannot make more pages."""
    client, keys = served(built), AccessKeys(built.parent)
    made, text = keys.create("ada", ["viewer"], kind="person")
    holder = {"authorization": f"Bearer {text}", "holdfast-actor": "person:bob"}
    ticket = client.post("/page/tickets", headers=holder).json()["ticket"]
    page = exchange(client, ticket).json()["key"]
    headers = {"authorization": f"Bearer {page}", "holdfast-actor": "agent:coder"}
    assert client.get("/v1/sessions", headers=headers).json() == ["person:ada/bob"]
    assert client.post("/page/tickets", headers=headers).status_code == 401
    keys.revoke(made.id)
    assert client.get("/v1/sessions", headers=headers).status_code == 401
    assert client.post("/page/tickets", headers=holder).status_code == 401


def test_a_shared_link_opens_pages_until_it_is_revoked(built: Path) -> None:
    """Several, all for one guest; its text is a key of nothing else."""
    client, keys = served(built), AccessKeys(built.parent)
    made, text = keys.create("guest-1a2b", ["sessions:read"], kind=LINK, session="a" * 12)
    pages = [exchange(client, text).json()["key"] for _ in range(2)]
    for page in pages:
        answer = client.get("/v1/sessions", headers={"authorization": f"Bearer {page}"})
        assert answer.json() == ["person:guest-1a2b"]
    assert client.get("/v1/sessions", headers={"authorization": f"Bearer {text}"}).status_code == 401
    assert client.post("/page/tickets", headers={"authorization": f"Bearer {text}"}).status_code == 401
    keys.revoke(made.id)
    for page in pages:
        answer = client.get("/v1/sessions", headers={"authorization": f"Bearer {page}"})
        assert answer.status_code == 401
    assert exchange(client, text).status_code == 401
