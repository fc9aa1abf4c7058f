"""The server and those without the token: they get nothing, keep no one out, and cost little memory.

Also the ways to start it: on a unix socket, by systemd, with invalid settings.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from tests.integration.conftest import Cli
from tests.integration.served import Served, serving

from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.client.blocking.remote_holdfast import RemoteHoldfast
from holdfast.runtime.e2b.sandbox_access import SandboxTokens

pytestmark = pytest.mark.thorough

MEMORY = 96 << 20
"""Bytes by which the server may grow while it is attacked."""


@pytest.fixture(scope="module")
def server(shared: Session, make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    with serving(make_cli(shared_home), shared_home) as found:
        yield found


def test_without_the_token_no_path_is_answered(server: Served) -> None:
    document = server.get("/openapi.json")
    with httpx.Client(base_url=server.url, trust_env=False) as stranger:
        for path, operations in document["paths"].items():
            for method in operations:
                answer = stranger.request(method, path.replace("{", "").replace("}", ""))
                assert answer.status_code == 401, (method, path)
                assert answer.json()["error"]["code"] == "unauthorized"
        assert stranger.get("/docs").status_code == 401
        right = {"authorization": f"Bearer {server.token}"}
        assert stranger.get("/health", headers=right | {"host": "evil.test"}).status_code == 421
        assert stranger.get("/health", headers=right | {"origin": "http://evil.test"}).status_code == 403
        assert stranger.get("/health", headers=right).status_code == 200


def test_a_flood_of_connections_keeps_nobody_out(server: Served) -> None:
    """Ten thousand, some silent, some with half a request; the oldest are closed for the newest."""
    before, held, closed = server.resident(), [], 0
    try:
        for number in range(10_000):
            one = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            if number % 3 == 0:
                with suppress(OSError):
                    one.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
            held.append(one)
            if number % 1000 == 999:
                with httpx.Client(base_url=server.url, headers=server.headers, trust_env=False) as client:
                    assert client.get("/health", timeout=60).status_code == 200
            if len(held) > 2000:
                held.pop(0).close()
        assert server.resident() - before < MEMORY
    finally:
        for one in held:
            one.close()
            closed += 1
    assert server.get("/v1/sessions/shared")["state"] == "running"


def test_heads_and_bodies_without_end_are_cut_off(server: Served) -> None:
    before = server.resident()
    endless = (
        (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"X-Long: " + b"x" * 65_536 + b"\r\n"),
        (
            b"POST /v1/sessions/s/exec HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"10000\r\n" + b"x" * 65_536 + b"\r\n",
        ),
        (
            b"POST /v1/sessions/shared/exec HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\nAuthorization: Bearer " + server.token.encode() + b"\r\n\r\n",
            b"10000\r\n" + b" " * 65_536 + b"\r\n",
        ),
    )
    for head, part in endless:
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as one:
            one.sendall(head)
            with pytest.raises(OSError):
                _send_all(one, part)
    assert server.resident() - before < MEMORY
    large = server.client.post("/v1/sessions/shared/exec", content=b" " * (17 << 20))
    assert (large.status_code, large.json()["error"]["code"]) == (413, "body_too_large")


def _send_all(one: socket.socket, part: bytes) -> None:
    for _ in range(2000):
        one.sendall(part)


def test_garbage_is_refused(server: Served) -> None:
    for data in (
        b"\x16\x03\x01\x02\x00" + bytes(range(256)) * 40,
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n" * 10_000,
    ):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as one, suppress(OSError):
            one.sendall(data)
            one.shutdown(socket.SHUT_WR)
            assert not one.recv(1 << 16).startswith(b"HTTP/1.1 2")
    assert server.get("/health")["status"] == "ok"


def test_readers_that_do_not_read_stop_their_own_call_only(server: Served, shared: Session) -> None:
    """The output of a command waits in the session, and not in the server's memory."""
    before = server.resident()
    body = b'{"command": "head -c 300000000 /dev/zero | tr \\"\\\\0\\" x"}'
    head = (
        f"POST /v1/sessions/shared/exec HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {server.token}\r\nAccept: application/x-ndjson\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as slow:
        slow.sendall(head.encode() + body)
        assert polling.until(lambda: shared.shell().command_id is not None, 60)
        time.sleep(3)
        assert server.resident() - before < MEMORY
        assert server.post("/v1/sessions/shared/cells", {"code": "'free'"})["result"] == "'free'"
    assert polling.until(lambda: server.metric('holdfast_calls{kind="waiting"}') == 0, 60)
    shared.interrupt()


def test_requests_beyond_the_rate_are_refused(shared_cli: Cli, shared_home: Home) -> None:
    with serving(shared_cli, shared_home, "--rate", "5") as server:
        found = [server.client.get("/health") for _ in range(30)]
    refused = [each for each in found if each.status_code == 429]
    assert refused
    assert refused[0].json()["error"]["code"] == "too_many_requests"
    assert int(refused[0].headers["retry-after"]) >= 1


def test_a_session_gives_a_client_nothing_but_its_own_bytes(server: Served, shared: Session) -> None:
    """Root in it makes links out of every folder, names of any bytes, and invalid files."""
    shared.exec(
        "mkdir -p /srv/evil; cd /srv/evil; ln -s /etc/passwd link; ln -s ../../../../.. up; mkfifo pipe;"
        " printf x > $'\\xff\\nname'; ln -s / root; ln -s /dev/zero dev"
    )
    base = "/v1/sessions/shared/files"
    names = [each["name"] for each in server.get(f"{base}/list", path="/srv/evil")]
    assert "\ufffd\nname" in names
    through = server.client.get(f"{base}/content", params={"path": "/srv/evil/link"})
    assert through.text == shared.files.read("/etc/passwd").decode()
    for name in ("pipe", "dev"):
        refused = server.client.get(f"{base}/content", params={"path": f"/srv/evil/{name}"}, timeout=30)
        assert refused.status_code in (400, 409), refused.text
    tree = server.client.get(f"{base}/tree", params={"path": "/srv/evil"}).content
    assert b"root:x:0:0" not in tree
    made = server.client.put(f"{base}/tree", params={"path": "/srv/in"}, content=b"no tar at all" * 100)
    assert (made.status_code, made.json()["error"]["code"]) == (400, "invalid_argument")


def test_a_unix_socket_serves_its_user_alone(hf: Holdfast, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "door.sock"
    with cli.start("serve", "--unix", str(path), stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline().decode() == f"serving unix:{path}\n"
        assert path.stat().st_mode & 0o777 == 0o600
        token = (hf.home.root / "server-token").read_text().strip()
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://any.name") as client:
            assert client.get("/health").status_code == 401
            assert (
                client.get("/health", headers={"authorization": f"Bearer {token}"}).json()["status"] == "ok"
            )
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert not path.exists()


def test_systemd_hands_over_the_socket_and_hears_when_it_is_ready(
    home: Home, cli: Cli, tmp_path: Path
) -> None:
    """As sd_listen_fds(3) and sd_notify(3) say, with this test in the place of systemd."""
    notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notified.bind(str(tmp_path / "notify"))
    notified.settimeout(60)
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        opened.listen()
        port = opened.getsockname()[1]
        start = (
            "import os, sys\nos.dup2(int(sys.argv[1]), 3)\n"
            "os.environ |= {'LISTEN_PID': str(os.getpid()), 'LISTEN_FDS': '1'}\n"
            "os.execv(sys.executable, [sys.executable, '-m', 'holdfast', 'serve'])"
        )
        environment = cli.environment | {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        words = [sys.executable, "-c", start, str(opened.fileno())]
        process = subprocess.Popen(words, env=environment, pass_fds=[opened.fileno()], stdout=subprocess.PIPE)
    with process:
        assert notified.recv(100) == b"READY=1"
        token = (home.root / "server-token").read_text().strip()
        with httpx.Client(headers={"authorization": f"Bearer {token}"}, trust_env=False) as client:
            assert client.get(f"http://127.0.0.1:{port}/health").json()["status"] == "ok"
        process.terminate()
        assert notified.recv(100) == b"STOPPING=1"
        assert process.wait(30) == 0
    notified.close()


def test_a_token_that_a_stranger_got_ends_with_a_new_one(
    home: Home, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all that was made of it; a client that took it from the home continues with the new one."""
    path, file, sandbox = tmp_path / "door.sock", home.root / "server-token", "0123456789ab"
    places = ("/health", "/v1/sessions", "/openapi.json", "/mcp")

    def answered(token: str) -> set[int]:
        bearer, key = {"authorization": f"Bearer {token}"}, {"x-api-key": f"e2b_{token}"}
        access = {"e2b-sandbox-id": sandbox, "x-access-token": SandboxTokens(token).access(sandbox)}
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost") as ask:
            found = {ask.get(place, headers=bearer).status_code for place in places}
            found.add(ask.get("/v2/sandboxes", headers=key).status_code)
            found.add(ask.get("/files", params={"path": "/x"}, headers=access).status_code)
        return found

    @contextmanager
    def started(*words: str) -> Iterator[str]:
        with cli.start("serve", "--unix", str(path), *words, stdout=subprocess.PIPE) as process:
            assert process.stdout
            assert process.stdout.readline().decode() == f"serving unix:{path}\n"
            yield file.read_text().strip()
            process.terminate()
            assert process.wait(30) == 0

    monkeypatch.setenv("HOLDFAST_HOME", str(home.root))
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    with started() as stolen:
        client = RemoteHoldfast(f"unix://{path}")
        assert client.sessions() == []
        assert 401 not in answered(stolen)
        taken = cli("serve", "--unix", str(path), "--new-token")
        assert (taken.code, file.read_text().strip()) == (1, stolen)  # the one that runs still has it
    with started("--new-token") as kept:
        assert answered(stolen) == {401}
        assert 401 not in answered(kept)
        assert client.sessions() == []
        client.close()
    with started() as after:
        assert after == kept


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--listen", "0.0.0.0:0"], "must be a port of this machine's loopback"),
        (["--listen", "nonsense"], "cannot listen on 'nonsense'"),
        (["--listen", "0", "--unix", "/tmp/x"], "leave out one"),
        (["--unix", "/nowhere/at/all.sock"], "cannot listen on '/nowhere/at/all.sock'"),
    ],
)
def test_a_failure_to_serve_is_one_line(cli: Cli, words: list[str], said: str) -> None:
    done = cli("serve", *words)
    assert done.code == 1
    assert said in done.err
    assert "Traceback" not in done.err


def test_the_server_listens_beyond_loopback_only_when_asked(hf: Holdfast, cli: Cli) -> None:
    with cli.start("serve", "--listen", "0.0.0.0:0", "--anywhere", stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline().startswith(b"serving http://0.0.0.0:")
        process.terminate()
        assert process.wait(30) == 0


def test_a_token_of_the_environment_is_used_and_a_weak_one_refused(cli: Cli) -> None:
    weak = cli("serve", "--listen", "0", HOLDFAST_TOKEN="secret")
    assert weak.code == 1
    assert "cannot use the token in HOLDFAST_TOKEN" in weak.err


def test_two_thousand_requests_at_once_are_all_answered(server: Served) -> None:
    """Some with 503, when the allowed number is being served; none without an answer."""
    statuses: list[int] = []

    def ask() -> None:
        with httpx.Client(
            base_url=server.url, headers=server.headers, trust_env=False, timeout=120
        ) as client:
            statuses.extend(client.get("/v1/sessions/shared").status_code for _ in range(20))

    threads = [threading.Thread(target=ask) for _ in range(100)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(statuses) == 2000
    assert set(statuses) <= {200, 503}
