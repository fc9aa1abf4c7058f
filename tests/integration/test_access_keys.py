"""Keys over a real server: their users' actions are theirs in the journal, and end with them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.conftest import Cli
from tests.integration.served import Over, Served, serving
from tests.runtime.sign_in import real_issuer
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from holdfast import Session
from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.errors import NotPermitted, ServerDenied, SessionNotFound
from holdfast.runtime.client.blocking.remote_holdfast import RemoteHoldfast

SIGN_IN = """
url = "http://localhost:8420"

[[issuer]]
name = "corp"
url = "ISSUER"
client = "holdfast"
secret-file = "SECRET"

[[issuer.role]]
claim = "groups"
value = "platform"
role = "member"

[issuer.device]
client = "terminals"
nonce = "optional"
"""


@pytest.fixture(scope="module")
def audited(
    shared: Session,
    shared_home: Home,
    make_cli: Callable[[Home], Cli],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Served]:
    """A server with an audit trail, at which people can sign in."""
    folder = tmp_path_factory.mktemp("sign-in")
    (folder / "secret").write_text(real_issuer.SECRET)
    with real_issuer.issuing() as issuer:
        told = SIGN_IN.replace("ISSUER", issuer.url).replace("SECRET", str(folder / "secret"))
        (folder / "sign-in.toml").write_text(told)
        options = ("--audit", "--oidc", str(folder / "sign-in.toml"))
        with serving(make_cli(shared_home), shared_home, *options) as served:
            yield served


@pytest.fixture
def clients(audited: Served) -> Iterator[Callable[[Any], httpx.Client]]:
    """Make clients of the server that send some headers."""
    with ExitStack() as opened:

        def make(headers: dict[str, str]) -> httpx.Client:
            return opened.enter_context(
                httpx.Client(base_url=audited.url, headers=headers, timeout=60, trust_env=False)
            )

        yield make


@pytest.fixture
def key(shared_cli: Cli) -> Callable[..., str]:
    """Make a key by the command line, and return its text."""

    def make(name: str, *words: str) -> str:
        return shared_cli("access", "new", name, *words).out.strip()

    return make


def test_a_members_actions_carry_its_name(
    audited: Served, shared: Session, key: Callable[..., str], shared_cli: Cli
) -> None:
    """In the journal and the trail, whatever the header says; and it does not reach what its scopes lack."""
    with RemoteHoldfast(audited.url, token=key("coder", "--role", "member"), actor="person:eve") as holdfast:
        session = holdfast.session("shared")
        assert session.exec("echo $((40 + 2))").text == "42\n"
        with pytest.raises(NotPermitted, match="the key coder lacks the scope sessions:remove"):
            session.remove()
        with pytest.raises(NotPermitted, match="host:mounts"):
            holdfast.new("mounted", mounts=["/etc:/mnt/etc:ro"])
    entries = shared.journal(kinds=["command_started"], grep="40 + 2")
    assert [each.actor for each in entries] == ["agent:coder/eve"]
    assert polling.until(
        lambda: any(
            row["actor"] == "agent:coder/eve" and row["status"] == 403
            for row in json.loads(shared_cli("audit", "show", "--json").out)
        ),
        20,
    )
    rows = json.loads(shared_cli("audit", "show", "--actor", "agent:coder", "--json").out)
    assert {(row["method"], row["status"]) for row in rows} >= {("DELETE", 403), ("POST", 403)}
    assert "echo" not in json.dumps(rows)
    assert shared_cli("audit", "verify").out.count(":") == 1


def test_actions_after_a_login_carry_the_persons_name(
    audited: Served, shared: Session, shared_cli: Cli, tmp_path: Path
) -> None:
    """By a device code, without a token in the environment, until they log out."""
    over = Over(audited, tmp_path)
    del over.environment["HOLDFAST_TOKEN"]
    over.environment["XDG_CONFIG_HOME"] = str(tmp_path)
    command = [sys.executable, "-m", "holdfast", "login"]
    with subprocess.Popen(command, env=over.environment, stderr=subprocess.PIPE, text=True) as login:
        assert login.stderr is not None
        told = re.search(r"open (\S+) in a browser and enter the code (\S+)", login.stderr.readline())
        assert told is not None
        real_issuer.Visitor("u-ada").follow(told[1], user_code=told[2])
        assert "you are person:ada" in login.stderr.read()
    assert over("exec", "shared", "--", "echo", "$((40 + 5))") == "$((40 + 5))\n"
    assert over("exec", "shared", "echo $((40 + 5))") == "45\n"
    assert "lacks the scope sessions:remove" in over("rm", "shared", code=1)
    entries = shared.journal(kinds=["command_started"], grep="40 + 5")
    assert {each.actor for each in entries} == {"person:ada"}
    over("logout")
    assert "without its token" in over("ls", code=1)
    (key,) = (
        each for each in json.loads(shared_cli("access", "ls", "--json").out) if each["kind"] == "person"
    )
    assert (key["name"], key["state"]) == ("ada", "revoked")


def test_a_viewer_sees_a_terminal_and_cannot_type(
    audited: Served, shared: Session, key: Callable[..., str], shared_cli: Cli
) -> None:
    """Over a channel too, and its key is for one session."""
    text = key("viewer", "--role", "viewer", "--session", "shared", "--person")
    with RemoteHoldfast(audited.url, token=text) as holdfast:
        assert holdfast.session("shared").terminal.screen() is not None
        with pytest.raises(NotPermitted, match="sessions:exec"):
            holdfast.session("shared").exec("true")
        with pytest.raises(SessionNotFound):
            holdfast.session("elsewhere")
    with _socket(audited, text) as socket:
        opened = {"open": 1, "call": "terminal", "session": "shared", "args": {"view": True, "tail": 100}}
        socket.send(json.dumps(opened))
        socket.send(json.dumps({"channel": 1, "type": "echo typed-by-a-viewer\r"}))
        told = _until(socket, lambda each: "error" in each)
        assert told["error"]["code"] == "not_permitted"
        for call in ("terminal", "attach", "exec"):
            args = {"command": "true"} if call == "exec" else {}
            socket.send(json.dumps({"open": 2, "call": call, "session": "shared", "args": args}))
            assert _until(socket, lambda each: "error" in each)["error"]["code"] == "not_permitted", call
    refused = [("channel exec", 403), ("channel attach", 403), ("channel terminal", 403)]
    assert polling.until(lambda: set(refused) <= _called(shared_cli, "person:viewer"), 20)
    assert "typed-by-a-viewer" not in shared.terminal.screen().text


def test_connections_of_a_revoked_key_are_cut(
    audited: Served, key: Callable[..., str], shared_cli: Cli, tmp_path: Path
) -> None:
    """A WebSocket and a stream; commands that began continue, and the next request is refused."""
    text = key("leaver")
    over = Over(audited, tmp_path)
    over.environment["HOLDFAST_TOKEN"] = text
    over("exec", "--detach", "shared", "sleep 3; touch /tmp/continued")
    ended: list[float] = []

    def follow() -> None:
        with (
            audited.client.stream(
                "GET",
                "/v1/sessions/shared/events",
                headers={"authorization": f"Bearer {text}", "accept": "application/x-ndjson"},
            ) as answer,
            suppress(httpx.HTTPError),
        ):
            answer.read()
        ended.append(time.monotonic())

    following = threading.Thread(target=follow)
    following.start()
    with _socket(audited, text) as socket:
        socket.send(json.dumps({"open": 1, "call": "events", "session": "shared", "args": {}}))
        shared_cli("access", "rm", "leaver")
        with pytest.raises(ConnectionClosed):
            _until(socket, lambda _: False)
        assert socket.close_code == 1008
    following.join(30)
    assert ended
    assert "server_denied" in over("--json", "exec", "shared", "--", "true", code=1)
    with RemoteHoldfast(audited.url, token=audited.token) as holdfast:
        session = holdfast.session("shared")
        assert polling.until(lambda: session.files.exists("/tmp/continued"), 30)


def test_a_shared_link_watches_one_session_and_no_more(
    audited: Served,
    shared: Session,
    shared_cli: Cli,
    key: Callable[..., str],
    tmp_path: Path,
) -> None:
    """It cannot type, open a different session, or outlive its end; watched people are notified of it."""
    over = Over(audited, tmp_path)
    over.environment["HOLDFAST_TOKEN"] = key(
        "sharer", "--scope", "sessions:read", "--scope", "sessions:share"
    )
    assert "lacks the scope lease:take and sessions:exec" in over("share", "shared", "--type", code=1)
    made = json.loads(over("share", "shared", "--read-only", "--for", "1h", "--json"))
    assert made["url"].startswith(audited.url)
    ticket = made["url"].partition("#ticket=")[2].partition("&")[0]
    ticket_header = {"Authorization": f"Bearer {ticket}"}
    page = httpx.post(f"{audited.url}/page/keys", headers=ticket_header).json()["key"]
    assert [each["visits"] for each in json.loads(shared_cli("share", "--json").out)] == [1]
    assert any(each.kind == "visited" and each.actor == f"person:{made['name']}" for each in shared.journal())
    with RemoteHoldfast(audited.url, token=page) as holdfast:
        assert holdfast.session("shared").terminal.screen() is not None
        with pytest.raises(NotPermitted, match="sessions:exec"):
            holdfast.session("shared").exec("true")
        with pytest.raises(NotPermitted, match="files:read"):
            holdfast.session("shared").files.read("/etc/passwd")
        with pytest.raises(SessionNotFound):
            holdfast.session("elsewhere")
    with RemoteHoldfast(audited.url, token=ticket) as holdfast, pytest.raises(ServerDenied):
        holdfast.session("shared")
    with _socket(audited, page) as socket:
        opened = {"open": 1, "call": "terminal", "session": "shared", "args": {"view": True, "tail": 100}}
        socket.send(json.dumps(opened))
        _until(socket, lambda each: each.get("event") == "standing")
        socket.send(json.dumps({"open": 2, "call": "terminal", "session": "shared", "args": {}}))
        assert _until(socket, lambda each: "error" in each)["error"]["code"] == "not_permitted"
        (listed,) = json.loads(over("share", "shared", "--list", "--json"))
        assert (listed["visits"], listed["url"], listed["state"]) == (1, "", "valid")
        over("share", "shared", "--revoke", made["name"])
        assert "there is not a link" in over("share", "shared", "--revoke", made["name"], code=1)
        with pytest.raises(ConnectionClosed):
            _until(socket, lambda _: False)
        assert socket.close_code == 1008
    assert httpx.post(f"{audited.url}/page/keys", headers=ticket_header).status_code == 401


def test_a_client_of_e2b_works_with_a_key_of_its_form(
    shared: Session, key: Callable[..., str], shared_cli: Cli, clients: Callable[[Any], httpx.Client]
) -> None:
    """Under its name in the journal and the trail; its tokens for the sandbox end with the key."""
    text = key("evals", "--e2b", "--role", "member")
    client = clients({"x-api-key": text})
    found = client.post(f"/sandboxes/{shared.id}/connect", json={"timeout": 60})
    assert found.status_code == 200, found.text
    headers = {"e2b-sandbox-id": shared.id, "x-access-token": found.json()["envdAccessToken"]}
    data = clients(headers)
    said = data.post("/files", params={"path": "/tmp/by-evals"}, files={"file": ("x", b"1")})
    assert said.status_code == 200, said.text
    assert client.delete(f"/sandboxes/{shared.id}").status_code == 403
    assert any(each.actor == "agent:evals" for each in shared.journal(kinds=["files"]))
    shared_cli("access", "rm", "evals")
    assert data.get("/files", params={"path": "/tmp/by-evals"}).status_code == 401
    assert client.get(f"/sandboxes/{shared.id}").status_code == 401

    def rows() -> set[tuple[str, str, int]]:
        told = json.loads(shared_cli("audit", "show", "--actor", "agent:evals", "--json").out)
        return {(row["path"], row["session"], row["status"]) for row in told}

    wanted = {("/files", shared.id, 200), ("/sandboxes/{sandbox}", shared.id, 403)}
    assert polling.until(lambda: wanted <= rows(), 20)
    assert shared_cli("audit", "verify", "--json").out.count('"heads": 0') == 0


def test_a_viewer_cannot_run_by_the_other_wires(
    audited: Served, shared: Session, key: Callable[..., str], clients: Callable[[Any], httpx.Client]
) -> None:
    """MCP reports the missing scope as an error of the tool; permitted reads work."""
    text = key("looker", "--role", "viewer", "--session", "shared")
    headers = {"authorization": f"Bearer {text}", "accept": "application/json, text/event-stream"}
    client = clients(headers)
    begun = client.post("/mcp", json=_rpc(1, "initialize", _HELLO))
    client.headers["mcp-session-id"] = begun.headers["mcp-session-id"]
    client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})

    def tool(name: str, **arguments: Any) -> str:
        return client.post("/mcp", json=_rpc(2, "tools/call", {"name": name, "arguments": arguments})).text

    assert "lacks the scope sessions:exec" in tool("run", command="touch /tmp/by-looker")
    assert "is for one session" in tool("sessions")
    assert "cannot find session" in tool("status", session="elsewhere")
    assert "cannot" not in tool("screen")
    other = key("other", "--role", "admin")
    stolen = {"authorization": f"Bearer {other}"}
    assert client.post("/mcp", json=_rpc(3, "tools/list", {}), headers=stolen).status_code == 404
    swerex = f"/swerex/{shared.id}/execute"
    refused = httpx.post(audited.url + swerex, json={"command": "true"}, headers={"x-api-key": text})
    assert "lacks the scope sessions:exec" in refused.text
    assert not shared.files.exists("/tmp/by-looker")


_HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "looker", "version": "1"},
}


def _rpc(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def test_a_wrong_key_is_one_line(audited: Served, tmp_path: Path) -> None:
    """And the library's error."""
    with (
        pytest.raises(ServerDenied),
        RemoteHoldfast(audited.url, token="hf_0123456789ab_" + "A" * 43) as holdfast,
    ):
        holdfast.sessions()


def _socket(server: Served, text: str) -> Any:
    return connect(
        server.url.replace("http:", "ws:") + "/v1/channels",
        additional_headers={"authorization": f"Bearer {text}"},
        proxy=None,
    )


def _called(shared_cli: Cli, actor: str) -> set[tuple[str, int]]:
    rows = json.loads(shared_cli("audit", "show", "--actor", actor, "--json").out)
    return {(row["path"], row["status"]) for row in rows if row["method"] == "CALL"}


def _until(socket: Any, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    for _ in range(200):
        told: dict[str, Any] = json.loads(socket.recv(timeout=30))
        if wanted(told):
            return told
    raise AssertionError("it never came")
