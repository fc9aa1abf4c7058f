"""The gateway's wire on a real server, over a real supervisor and kernel: no engine is needed for that."""

from __future__ import annotations

import itertools
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.runtime.guest.harness import SESSION, Guest, compile_marks
from tests.runtime.jupyter.front_end import PATIENCE, FrontEnd, joined
from tests.runtime.jupyter.gateway_server import NAME, TOKEN, Gateway, gateway
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from holdfast.runtime.e2b.sandbox_access import SandboxTokens
from holdfast.runtime.guest.wire import kernel_messages
from holdfast.runtime.guest.wire.protocol import Frame, encode
from holdfast.runtime.jupyter.kernel_table import kernel_id

HEADERS = {"Authorization": f"token {TOKEN}"}
_ids = itertools.count()
KERNEL = kernel_id(SESSION, "main")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    guest = Guest(compile_marks(tmp_path_factory.mktemp("marks")))
    try:
        with gateway(guest) as found:
            yield found
    finally:
        guest.stop()


@pytest.fixture
def http(server: Gateway) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers=HEADERS, trust_env=False, timeout=PATIENCE) as client:
        yield client


def front_end(
    server: Gateway, client: str, *, binary: bool = False, kernel: str = KERNEL
) -> AbstractContextManager[FrontEnd]:
    return joined(server.websocket, HEADERS, client, kernel, binary=binary)


def test_a_spec_leads_to_the_kernel_of_its_session(http: httpx.Client) -> None:
    specs = http.get("/api/kernelspecs").json()
    assert (specs["default"], list(specs["kernelspecs"])) == (f"holdfast-{NAME}", [f"holdfast-{NAME}"])
    made = http.post("/api/kernels", json={"name": f"holdfast-{NAME}", "env": {}})
    assert (made.status_code, made.json()["id"]) == (201, KERNEL)
    assert [each["id"] for each in http.get("/api/kernels").json()] == [KERNEL]
    assert http.get(f"/api/kernels/{KERNEL}").json()["execution_state"] in ("starting", "idle")
    # The name of most notebooks, and paths for one session.
    assert http.post("/api/kernels", json={"name": "python3"}).json()["id"] == KERNEL
    assert http.get(f"/jupyter/{NAME}/api/kernels/{KERNEL}").json()["id"] == KERNEL
    for path in ("/jupyter/other/api/kernels", "/api/kernels/no-such-kernel", "/api/kernelspecs/other"):
        answer = http.get(path)
        assert (answer.status_code, set(answer.json())) == (404, {"message", "reason"})


@pytest.mark.parametrize("binary", [False, True], ids=["legacy", "v1"])
def test_both_sub_protocols_share_the_agents_variables(server: Gateway, *, binary: bool) -> None:
    server.guest.run_cell("agents = 41")
    with front_end(server, f"p{binary}", binary=binary) as front:
        assert front.binary == binary
        assert front.value("agents + 1") == "42"
        asked = front.execute("input('who? ')")
        while front.next()[:2] != ("input_request", asked):
            pass
        front.send("stdin", "input_reply", {"value": "ann"})
        assert front.done(asked)[0]["status"] == "ok"


def test_a_notebook_is_opened_as_editors_do_it(server: Gateway, http: httpx.Client) -> None:
    """The requests of @jupyterlab/services, which VS Code uses: specs, kernels, open notebooks, channels."""
    server.guest.run_cell("agents = 'of the agent'")
    for path in ("/api/kernelspecs", "/api/kernels", "/api/sessions"):
        assert http.get(path, params={"1796021123": ""}).status_code == 200
    assert http.get("/api/sessions").json() == []
    wanted = {"path": "work-jvsc-1.ipynb", "name": "work", "type": "notebook"}
    made = http.post("/api/sessions", json={**wanted, "kernel": {"name": f"holdfast-{NAME}"}})
    assert made.status_code == 201
    opened = made.json()
    assert (opened["kernel"]["id"], opened["notebook"]["path"]) == (KERNEL, wanted["path"])
    assert http.post("/api/sessions", json={**wanted, "kernel": {"id": KERNEL}}).json()["id"] == opened["id"]
    assert [each["id"] for each in http.get("/api/sessions").json()] == [opened["id"]]
    with front_end(server, "editor", binary=True, kernel=opened["kernel"]["id"]) as front:
        assert front.value("agents") == "of the agent"
    place = f"/api/sessions/{opened['id']}"
    assert http.patch(place, json={"name": "renamed"}).json()["name"] == "renamed"
    assert http.get(place).json()["name"] == "renamed"
    assert http.delete(place).status_code == 204
    assert http.get(place).status_code == 404
    assert http.get("/api/sessions").json() == []
    assert [each["id"] for each in http.get("/api/kernels").json()] == [KERNEL]


@pytest.mark.parametrize(
    "body",
    [{}, {"path": 7}, {"path": "x" * 2000}, {"path": "x", "type": "y"}, {"path": "x", "kernel": []}],
    ids=["no path", "a number", "long", "no type", "a list"],
)
def test_an_invalid_notebook_is_refused(http: httpx.Client, body: dict[str, Any]) -> None:
    answer = http.post("/api/sessions", json=body)
    assert (answer.status_code, answer.json()["reason"]) == (400, "invalid_argument")
    assert http.get("/api/sessions").json() == []


def test_a_front_end_ends_only_its_own_connections(server: Gateway, http: httpx.Client) -> None:
    """Neither DELETE nor a request to shut down takes the agent's variables; a restart does."""
    server.guest.run_cell("work = 'kept'")
    with front_end(server, "ends") as front:
        front.send("control", "shutdown_request", {"restart": False})
        while front.next()[0] != "shutdown_reply":
            pass
        assert http.delete(f"/api/kernels/{KERNEL}").status_code == 204
        assert front.value("work") == "kept"
        asked = front.execute("import time\nprint('on', flush=True)\nwhile True: time.sleep(0.01)")
        while front.next()[:2] != ("stream", asked):
            pass
        assert http.post(f"/api/kernels/{KERNEL}/interrupt").status_code == 204
        assert front.done(asked)[0]["ename"] == "KeyboardInterrupt"
        assert http.post(f"/api/kernels/{KERNEL}/restart").json()["id"] == KERNEL
        assert front.value("'work' in dir()") == "False"


def test_a_capture_goes_unnoticed(server: Gateway) -> None:
    """Input sent during the pause runs once, and no output is missing or doubled."""
    gate = server.guest.folder / "capture-gate"
    with front_end(server, "captured") as front:
        assert front.value("1") == "1"
        asked = front.execute(
            f"import os, time\nprint('before', flush=True)\ntimes = 0\n"
            f"while not os.path.exists({str(gate)!r}): time.sleep(0.01)\nprint('after')"
        )
        text = ""
        while "\n" not in text:
            kind, parent, content = front.next()
            text += content["text"] if (kind, parent) == ("stream", asked) else ""
        token = server.guest.prepare()["token"]
        later = front.execute("times += 1")
        server.guest.wake(token=token, event="resumed")
        gate.touch()
        assert front.done(asked)[1].strip() == "after"
        assert front.done(later)[0]["status"] == "ok"
        assert front.value("times") == "1"


def test_output_that_was_missed_is_replayed(server: Gateway) -> None:
    """To the same client from where it was; a new one sees the running cell from its beginning."""
    gate = server.guest.folder / "replay-gate"
    with front_end(server, "leaves") as front:
        asked = front.execute(
            f"import os, time\nprint('a', flush=True)\n"
            f"while not os.path.exists({str(gate)!r}): time.sleep(0.01)\nprint('b')"
        )
        while front.next()[:2] != ("stream", asked):
            pass
    with front_end(server, "newcomer") as front:
        while front.next()[:2] != ("stream", asked):
            pass
    gate.touch()
    with front_end(server, "other") as front:
        assert front.value("'it has ended'")
    with front_end(server, "leaves") as front:
        reply, text = front.done(asked)
        assert (reply["status"], text.strip()) == ("ok", "b")


def test_only_the_servers_token_opens_it(server: Gateway) -> None:
    """In the header or in the query; the tokens of a sandbox open nothing, and two tokens are refused."""
    tokens = SandboxTokens(TOKEN)
    wrong: list[tuple[dict[str, str], str]] = [
        ({}, ""),
        ({}, "?token="),
        ({}, f"?token={TOKEN}&token={TOKEN}"),
        ({"Authorization": f"token {TOKEN}"}, f"?token={TOKEN}x&token="),
        *(
            ({"Authorization": f"token {one}"}, "")
            for one in (tokens.access(SESSION), tokens.traffic(SESSION))
        ),
        *(({}, f"?token={one}") for one in (tokens.access(SESSION), tokens.traffic(SESSION))),
    ]
    for headers, query in wrong:
        if headers and query:
            continue  # a header alone counts
        found = httpx.get(f"{server.url}/api/kernels{query}", headers=headers, trust_env=False)
        assert found.status_code == 401, (headers, query)
        with (
            pytest.raises(InvalidStatus) as refused,
            connect(
                f"{server.websocket}/api/kernels/{KERNEL}/channels{query}",
                additional_headers=headers,
                proxy=None,
            ),
        ):
            pass
        assert refused.value.response.status_code == 401
    for headers, query in (({}, f"?token={TOKEN}"), ({"Authorization": f"Bearer {TOKEN}"}, "")):
        assert (
            httpx.get(f"{server.url}/api/kernels{query}", headers=headers, trust_env=False).status_code == 200
        )


def test_pages_of_other_origins_and_names_are_refused(server: Gateway) -> None:
    for more, status in (({"Origin": "https://evil.example"}, 403), ({"Host": "evil.example"}, 421)):
        found = httpx.get(f"{server.url}/api/kernels", headers=HEADERS | more, trust_env=False)
        assert found.status_code == status
    url = f"{server.websocket}/api/kernels/{KERNEL}/channels?token={TOKEN}"
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(url, origin=Origin("https://evil.example"), proxy=None),
    ):
        pass
    assert refused.value.response.status_code == 403


@pytest.mark.parametrize("data", ["nonsense", b"\xff" * 64, '{"header": {}}'], ids=["text", "bytes", "no id"])
def test_a_malformed_message_closes_its_connection_only(server: Gateway, data: str | bytes) -> None:
    with front_end(server, "bystander") as bystander, front_end(server, "bad") as front:
        front.socket.send(data)
        with pytest.raises(ConnectionClosed) as closed:
            front.done("the end")
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
        assert bystander.value("1 + 1") == "2"


Misbehaviour = Callable[[socket.socket], None]


def _frame(head: dict[str, Any], payload: bytes = b"") -> bytes:
    return encode(Frame(head, payload))


HEADER = json.dumps({"msg_id": "a", "msg_type": "stream"}).encode()
JOINED = _frame({"event": "joined", "state": "idle", "epoch": 1, "lost": False})
LIES = {
    "no frames": b"\xff" * 4096,
    "another answer": _frame({"event": "ok", "end": True}) * 3,
    "states": _frame({"event": "joined", "state": ["x"], "lost": 7}),
    "places": JOINED + _frame({"event": "message", "at": "x"}),
    "gaps": JOINED + _frame({"event": "gap", "size": -1}) * 10,
    "confirmations": JOINED + _frame({"event": "taken", "number": None}),
    "empty messages": JOINED + _frame({"event": "message", "at": 0}) * 1000,
    "nested": JOINED
    + _frame(
        {"event": "message", "at": 1}, kernel_messages.pack("iopub", [HEADER, b"{}", b"{}", b"[" * 10**6])
    ),
    "errors": JOINED + _frame({"event": "error", "code": "busy", "message": "x" * 10_000, "end": True}),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=list(LIES))
def test_a_session_that_lies_ends_its_own_front_ends_only(server: Gateway, lie: bytes) -> None:
    """Or is given up, or is passed over; whatever it sends, another session's front end notices nothing."""
    with _hostile(server, lie) as id_, front_end(server, "bystander") as bystander:
        with (
            suppress(InvalidStatus, ConnectionClosed, TimeoutError),
            front_end(server, "victim", kernel=kernel_id(id_, "main")) as front,
        ):
            for _ in range(20):
                front.socket.recv(1)
        assert bystander.value("6 * 7") == "42"


@contextmanager
def _hostile(server: Gateway, lie: bytes) -> Iterator[str]:
    """A session whose supervisor answers every request with these bytes."""
    id_ = f"{next(_ids):012x}"
    store = server.doors.callers.controller("agent:test").store
    store.add_session(f"hostile{id_}", "image", {}, session_id=id_, state="running")
    folder = server.doors.callers.home.shared_folder(id_)
    Path(folder).mkdir(parents=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(Path(folder) / "guest.sock"))
    listener.listen(16)

    def answer() -> None:
        while True:
            try:
                opened, _ = listener.accept()
            except OSError:
                return
            with opened:
                opened.settimeout(1)
                with suppress(OSError):
                    opened.recv(1 << 16)
                    opened.sendall(lie)
                    opened.recv(1 << 16)

    threading.Thread(target=answer, daemon=True).start()
    try:
        yield id_
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        store.update_session(id_, state="removed")


def test_a_front_end_stays_connected_while_its_session_is_suspended(
    server: Gateway, http: httpx.Client
) -> None:
    """It is listed, so that a Jupyter server keeps it; what it asks for in the meantime runs afterwards."""
    store = server.doors.callers.controller("agent:test").store
    with front_end(server, "patient") as front:
        front.done(front.execute("turns = 0"))
        token = server.guest.prepare()["token"]
        store.update_session(SESSION, state="suspended")
        asked = front.execute("turns += 1")
        assert [each["id"] for each in http.get("/api/kernels").json()] == [KERNEL]
        assert http.get(f"/api/kernels/{KERNEL}").status_code == 200
        assert http.post(f"/api/kernels/{KERNEL}/interrupt").status_code == 503
        with pytest.raises(InvalidStatus) as refused, front_end(server, "newcomer2"):
            pass
        assert refused.value.response.status_code == 503
        server.guest.wake(token=token, event="resumed")
        store.update_session(SESSION, state="running")
        assert front.done(asked)[0]["status"] == "ok"
        assert front.value("turns") == "1"


def test_a_suspended_session_is_unavailable_for_now(server: Gateway, http: httpx.Client) -> None:
    """Front ends try again; nothing is woken by a list."""
    store = server.doors.callers.controller("agent:test").store
    store.add_session("asleep", "image", {}, session_id="e" * 12, state="suspended")
    id_ = kernel_id("e" * 12, "main")
    for method, path in (("GET", f"/api/kernels/{id_}"), ("POST", f"/api/kernels/{id_}/interrupt")):
        answer = http.request(method, path)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert "suspended" in answer.json()["message"]
    assert http.post("/api/kernels", json={"name": "holdfast-asleep"}).status_code == 503
    with pytest.raises(InvalidStatus) as refused, front_end(server, "early", kernel=id_):
        pass
    assert (refused.value.response.status_code, refused.value.response.headers["retry-after"]) == (503, "5")
    assert [each["id"] for each in http.get("/api/kernels").json()] == [KERNEL]
