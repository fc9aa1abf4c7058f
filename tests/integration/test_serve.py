"""Sessions over HTTP: the controller's operations, under the same names, for everyone with the token."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from tests.integration.conftest import Cli
from tests.integration.served import NDJSON, Served, serving

from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session


@pytest.fixture(scope="module")
def server(shared: Session, make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    with serving(make_cli(shared_home), shared_home) as found:
        yield found


def test_a_life_of_a_session(server: Served, shared_hf: Holdfast) -> None:
    """Made, used, captured while a command runs, forked, rewound, suspended, resumed, removed."""
    made = server.post("/v1/sessions", {"name": "life", "env": {"MODE": "test"}}, 201)
    assert (made["name"], made["state"]) == ("life", "running")
    assert server.post("/v1/sessions", {"name": "life"}, 409)["error"]["code"] == "session_exists"
    try:
        ran = server.post("/v1/sessions/life/exec", {"command": "cd /tmp; echo $MODE; (exit 3)"})
        assert (ran["exit_code"], ran["output"], ran["cwd"]) == (3, "test\n", "/tmp")
        left = server.post("/v1/sessions/life/exec", {"command": "sleep 600", "patience": 0.2})
        assert left["running"]
        taken = server.post("/v1/sessions/life/snapshots", {"label": "point", "reason": "to look"}, 201)
        assert (taken["label"], taken["kind"], taken["reason"]) == ("point", "live", "to look")
        copies = server.post("/v1/snapshots/point/fork", {"n": 2, "name": "copy"}, 201)
        assert [each["name"] for each in copies] == ["copy-1", "copy-2"]
        ended = server.post("/v1/sessions/copy-1/interrupt")
        assert (ended["command_id"], ended["exit_code"]) == (left["command_id"], 130)
        assert server.get("/v1/sessions/life/shells/main")["command_id"] == left["command_id"]
        back = server.post("/v1/sessions/copy-2/rewind", {"snapshot": "point", "discard": True})
        assert (back["snapshot"], back["kept"]) == (taken["id"], None)
        assert server.post("/v1/sessions/life/suspend")["state"] == "suspended"
        assert server.post("/v1/sessions/life/exec", {"command": "ls"}, 409)["error"]["hint"]
        assert server.post("/v1/sessions/life/resume")["state"] == "running"
        assert server.call("PATCH", "/v1/snapshots/point", {"pinned": True})["pinned"]
        assert {"life", "copy-1", "copy-2"} <= {each["name"] for each in server.get("/v1/sessions")}
    finally:
        for name in ("life", "copy-1", "copy-2"):
            server.call("DELETE", f"/v1/sessions/{name}", status=204)
        for each in shared_hf.snapshots():
            server.call("DELETE", f"/v1/snapshots/{each.id}", status=204)
    missing = server.call("GET", "/v1/sessions/life", status=404)
    assert missing["error"]["code"] == "session_not_found"


def test_output_comes_as_it_is_written_and_continues_at_its_offset(server: Served, shared: Session) -> None:
    command = "echo begun; until [ -e /tmp/go ]; do sleep 0.05; done; echo héllo; rm /tmp/go"
    with server.events("POST", "/v1/sessions/shared/exec", {"command": command}) as events:
        started, output = next(events), next(events)
        assert (started["event"], output["event"], output["output"]) == ("started", "output", "begun\n")
    # The client has left. The command continues, and another request has what followed.
    shared.files.write("/tmp/go", b"")
    path = f"/v1/sessions/shared/commands/{started['command_id']}"
    followed = server.get(path, start=output["next"])
    assert (followed["exit_code"], followed["output"]) == (0, "héllo\n")
    with server.client.stream(
        "GET", path, headers={"accept": "text/event-stream", "last-event-id": str(output["next"])}
    ) as answer:
        text = answer.read().decode()
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [line for line in text.splitlines() if line.startswith("event: ")] == [
        "event: output",
        "event: result",
    ]
    assert "héllo" in text


def test_a_stream_goes_on_while_the_session_is_captured(server: Served, shared: Session) -> None:
    """A capture closes connections into the session; the client's stays, and nothing is lost or doubled."""
    command = "for i in $(seq 40); do echo line $i; sleep 0.1; done"
    output = ""
    with server.events("POST", "/v1/sessions/shared/exec", {"command": command}) as events:
        for number, event in enumerate(events):
            output += event.get("output", "")
            if number == 5:
                shared.snapshot().remove()
    assert output.splitlines() == [f"line {number}" for number in range(1, 41)]
    assert (event["event"], event["exit_code"]) == ("result", 0)


def test_a_client_that_leaves_leaves_no_thread_behind(server: Served, shared: Session) -> None:
    """Its command continues; the server waits for it no longer, whether or not it writes anything."""
    assert server.metric('holdfast_calls{kind="waiting"}') == 0
    for headers in ({}, NDJSON):
        asking = {**server.headers, **headers}
        with (
            httpx.Client(base_url=server.url, headers=asking, timeout=3, trust_env=False) as client,
            pytest.raises(httpx.ReadTimeout),
        ):
            client.post("/v1/sessions/shared/exec", json={"command": "sleep 600"})
        assert polling.until(lambda: server.metric('holdfast_calls{kind="waiting"}') == 0, 60)
        assert shared.shell().command_id is not None
        shared.interrupt()


def test_many_that_wait_keep_nobody_waiting(server: Served, shared: Session) -> None:
    """While 64 clients wait for a command, others are answered."""
    left = server.post("/v1/sessions/shared/exec", {"command": "sleep 600", "patience": 0.1})
    path = f"/v1/sessions/shared/commands/{left['command_id']}"
    results: list[int] = []

    def wait() -> None:
        with httpx.Client(base_url=server.url, headers=server.headers, trust_env=False) as client:
            results.append(client.get(path, timeout=120).json()["exit_code"])

    waiting = [threading.Thread(target=wait) for _ in range(64)]
    for each in waiting:
        each.start()
    assert polling.until(lambda: server.metric('holdfast_calls{kind="waiting"}') == 64, 60)
    assert [server.get("/health")["status"] for _ in range(20)] == ["ok"] * 20
    assert server.get("/v1/sessions/shared")["state"] == "running"
    shared.interrupt()
    for each in waiting:
        each.join(60)
    assert results == [130] * 64


def test_the_journal_has_caller_and_request(server: Served, shared: Session) -> None:
    headers = {"holdfast-actor": "person:ada", "x-request-id": "req-7"}
    answer = server.client.post(
        "/v1/sessions/shared/exec", json={"command": "echo journalled", "reason": "to see"}, headers=headers
    )
    assert answer.headers["x-request-id"] == "req-7"
    found = server.get("/v1/sessions/shared/journal", kind="command_started", grep="journalled")
    assert (found[-1]["actor"], found[-1]["reason"], found[-1]["request"]) == (
        "person:ada",
        "to see",
        "req-7",
    )
    server.client.post("/v1/sessions/shared/cells", json={"code": "1"}, headers={"x-request-id": "req-8"})
    assert server.get("/v1/sessions/shared/journal", kind="cell_started")[-1]["request"] == "req-8"
    server.call(
        "PUT",
        "/v1/sessions/shared/files/content",
        params={"path": "/tmp/j"},
        headers={"x-request-id": "req-9"},
    )
    assert server.get("/v1/sessions/shared/journal", kind="files")[-1]["request"] == "req-9"
    wrong = server.post(
        "/v1/sessions/shared/exec", {"command": "ls"}, 400, headers={"holdfast-actor": "no one"}
    )
    assert wrong["error"]["code"] == "invalid_argument"
    made_up = server.client.get("/health", headers={"x-request-id": "a b\x7f"}).headers["x-request-id"]
    assert made_up.isalnum()


def test_under_a_key_it_runs_once(server: Served) -> None:
    for _ in range(3):
        ran = server.post(
            "/v1/sessions/shared/exec",
            {"command": "echo once >> /tmp/once; wc -l < /tmp/once"},
            headers={"idempotency-key": "once-1"},
        )
        assert ran["output"] == "1\n"
    other = server.post(
        "/v1/sessions/shared/exec", {"command": "other"}, 400, headers={"idempotency-key": "once-1"}
    )
    assert other["error"]["code"] == "invalid_argument"


def test_waiting_commands_are_answered(server: Served) -> None:
    asked = server.post("/v1/sessions/shared/exec", {"command": "read -p 'Name: ' name; echo hi $name"})
    assert (asked["waiting"]["detail"], asked["waiting"]["prompt"]) == ("line", "Name: ")
    assert server.post("/v1/sessions/shared/answer", {"text": "Ada\n"})["output"].endswith("hi Ada\n")
    cell = server.post("/v1/sessions/shared/cells", {"code": "input('Who? ')"})
    assert (cell["status"], cell["waiting"]["prompt"]) == ("waiting", "Who? ")
    told = {"text": "Bob", "seq": cell["seq"]}
    answered = server.post(f"/v1/sessions/shared/cells/{cell['cell_id']}/answer", told)
    assert (answered["status"], answered["result"]) == ("ok", "'Bob'")
    again = server.get(f"/v1/sessions/shared/cells/{cell['cell_id']}")
    assert again["result"] == "'Bob'"
    unknown = server.call("GET", "/v1/sessions/shared/cells/000000000000", status=404)
    assert unknown["error"]["code"] == "command_not_found"


def test_events_follow_an_answer(server: Served) -> None:
    server.post("/v1/sessions/shared/exec", {"command": "read -p 'Name: ' name; echo hi $name"})
    with server.events("POST", "/v1/sessions/shared/answer", {"text": "Ada\n"}) as events:
        told = list(events)
    assert (told[0]["event"], told[-1]["event"], told[-1]["exit_code"]) == ("started", "result", 0)
    assert "".join(each.get("output", "") for each in told).endswith("hi Ada\n")


def test_a_cell_that_lasts_is_left_and_joined(server: Served) -> None:
    code = "import time\nfor n in range(4):\n    print(n, flush=True)\n    time.sleep(0.3)\nn"
    left = server.post("/v1/sessions/shared/cells", {"code": code, "patience": 0.2})
    assert left["status"] == "running"
    with server.events(
        "GET", f"/v1/sessions/shared/cells/{left['cell_id']}", params={"after": left["seq"]}
    ) as events:
        told = list(events)
    shown = left["stdout"] + "".join(each.get("text", "") for each in told)
    assert shown == "0\n1\n2\n3\n"
    assert (told[-1]["event"], told[-1]["status"], told[-1]["result"]) == ("result", "ok", "3")


def test_programs_and_jobs(server: Served) -> None:
    body = {"argv": ["sh", "-c", "cat; echo err >&2; exit 4"], "input": "through\n"}
    ran = server.post("/v1/sessions/shared/run", body)
    assert (ran["exit_code"], ran["stdout"], ran["stderr"]) == (4, "through\n", "err\n")
    cat = {"argv": ["cat"], "input": True, "name": "cat"}
    program = server.post("/v1/sessions/shared/programs", cat, 201)
    assert program["name"] == "cat"
    path = f"/v1/sessions/shared/programs/{program['id']}"
    assert server.call("POST", f"{path}/input", content=b"\xffone\n")["accepted"] == 5
    assert server.call("POST", f"{path}/input", params={"close": True}, content=b"two\n")["accepted"] == 9
    with server.events("GET", f"{path}/output", params={"stdout": 5}) as events:
        told = list(events)
    assert "".join(each.get("output", "") for each in told) == "two\n"
    assert told[-1]["exit_code"] == 0
    whole = server.get(f"{path}/output")
    assert (whole["stdout"], whole["stdout_base64"]) == ("�one\ntwo\n", "/29uZQp0d28K")
    command = "echo in a job; sleep 600"
    job_body: dict[str, Any] = {"command": command, "name": "nap", "rows": 30, "cols": 90}
    job = server.post("/v1/sessions/shared/jobs", job_body, 201)
    server.post("/v1/sessions/shared/jobs/nap/size", {"rows": 50, "cols": 132}, 204)
    resized = server.get("/v1/sessions/shared/jobs/nap")
    assert (job["rows"], job["cols"], resized["rows"], resized["cols"]) == (30, 90, 50, 132)
    left = server.get(f"/v1/sessions/shared/jobs/{job['id']}/output", patience=0.5)
    assert left["running"]
    assert left["output"] == "in a job\n"
    server.post("/v1/sessions/shared/jobs/nap/signal", {"signal": "KILL"}, 204)
    assert server.get(f"/v1/sessions/shared/jobs/{job['id']}/output")["exit_code"] == 137


def test_shells_and_terminals(server: Served) -> None:
    opened = server.post("/v1/sessions/shared/shells", {"name": "second", "rows": 30, "cols": 100}, 201)
    assert (opened["name"], opened["rows"]) == ("second", 30)
    base = "/v1/sessions/shared/shells/second"
    server.post(f"{base}/input", {"text": "echo typed $((6*7))", "keys": ["Enter"]}, 204)
    assert polling.until(lambda: "typed 42" in server.get(f"{base}/screen")["text"], 60)
    held = server.post(f"{base}/lease", {"action": "take"}, headers={"holdfast-actor": "person:ada"})
    assert held["holder"] == "person:ada"
    busy = server.post("/v1/sessions/shared/exec", {"command": "ls", "shell": "second"}, 409)
    assert busy["error"]["code"] == "session_busy"
    server.post(f"{base}/lease", {"action": "return"}, headers={"holdfast-actor": "person:ada"})
    assert [each["name"] for each in server.get("/v1/sessions/shared/shells")] == ["main", "second"]
    server.call("DELETE", base, status=204)
    checked = server.post("/v1/sessions/shared/check-syntax", {"text": "if true; then"})
    assert (checked["ok"], checked["incomplete"]) == (False, True)


def test_ongoing_work_is_shown(server: Served, shared: Session) -> None:
    pulse = server.get("/v1/sessions/shared/pulse", part="processes")
    assert any("bash" in each["command"] for each in pulse["processes"])
    program = shared.programs.start(["python3", "-m", "http.server", "8123"])
    assert polling.until(lambda: server.get("/v1/sessions/shared/ports/8123")["answers"] is True, 60)
    program.signal("KILL")
    since = server.get("/v1/sessions/shared/journal")[-1]["seq"]
    with server.events("GET", "/v1/sessions/shared/events", params={"after": since}) as events:
        job = shared.detach("exit 3")
        begun, ended = next(events), next(events)
    assert (begun["event"], begun["id"]) == ("job_started", job.id)
    assert (ended["event"], ended["exit_code"]) == ("job_ended", 3)
    with server.events("GET", "/v1/sessions/shared/files/watch", params={"path": "/tmp"}) as events:
        assert next(events) == {"event": "watching", "path": "/tmp"}
        shared.files.write("/tmp/watched", b"x")
        assert next(each for each in events if each.get("path") == "/tmp/watched")["event"] == "change"
    assert server.get("/v1/sessions/shared/check")["processes"] > 0
    assert server.get("/v1/sessions/shared/network")["network"] == "internet"
    changed = server.call("PATCH", "/v1/sessions/shared/policy", {"keep": 5})
    assert changed["keep"] == 5


def test_files_go_in_and_out_whole_and_in_parts(server: Served, shared: Session) -> None:
    base, place = "/v1/sessions/shared/files", {"path": "/tmp/big"}
    content = bytes(range(256)) * 80_000  # 20 MB, more than a body that is read as a whole may have
    written = server.call("PUT", f"{base}/content", params=place | {"mode": "640"}, content=content)
    assert written == {"size": len(content)}
    assert shared.exec("stat -c %a /tmp/big").text == "640\n"
    whole = server.client.get(f"{base}/content", params=place)
    assert hashlib.sha256(whole.content).digest() == hashlib.sha256(content).digest()
    part = server.client.get(f"{base}/content", params=place, headers={"range": "bytes=255-257"})
    assert (part.status_code, part.content) == (206, b"\xff\x00\x01")
    assert part.headers["content-range"] == f"bytes 255-257/{len(content)}"
    beyond = server.client.get(f"{base}/content", params=place, headers={"range": "bytes=99999999-"})
    assert beyond.status_code == 416
    known = server.client.get(
        f"{base}/content", params=place, headers={"if-none-match": whole.headers["etag"]}
    )
    assert known.status_code == 304
    server.post(f"{base}/folders", {"path": "/tmp/a/b", "parents": True}, 204)
    server.post(f"{base}/move", {"path": "/tmp/big", "to": "/tmp/a/b/big"}, 204)
    assert [each["name"] for each in server.get(f"{base}/list", path="/tmp/a/b")] == ["big"]
    assert server.get(f"{base}/stat", path="/tmp/a/b/big")["size"] == len(content)
    packed = server.client.get(f"{base}/tree", params={"path": "/tmp/a"}).content
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        assert sorted(tar.getnames()) == ["b", "b/big"]
    made = server.call("PUT", f"{base}/tree", params={"path": "/tmp/c"}, content=packed)
    assert (made["files"], made["bytes"]) == (1, len(content))
    assert shared.exec("cmp /tmp/a/b/big /tmp/c/b/big").exit_code == 0
    server.call("DELETE", base, params={"path": "/tmp/a", "recursive": True}, status=204)
    assert (
        server.call("GET", f"{base}/stat", params={"path": "/tmp/a"}, status=404)["error"]["code"]
        == "session_file_not_found"
    )
    denied = server.call(
        "GET", f"{base}/content", params={"path": "/etc/shadow", "user": "nobody"}, status=403
    )
    assert denied["error"]["code"] == "session_file_denied"


def test_a_body_that_is_cut_short_changes_nothing(server: Served, shared: Session) -> None:
    shared.files.write("/tmp/kept", b"before")

    def half() -> Iterator[bytes]:
        yield b"x" * 100_000
        raise ConnectionError("the client breaks off")

    with pytest.raises(ConnectionError):
        server.client.put("/v1/sessions/shared/files/content", params={"path": "/tmp/kept"}, content=half())
    assert polling.until(lambda: server.metric('holdfast_calls{kind="waiting"}') == 0, 60)
    assert shared.files.read("/tmp/kept") == b"before"


def test_the_document_describes_every_path(server: Served) -> None:
    document = server.get("/openapi.json")
    assert document["openapi"].startswith("3.1")
    names = [each["operationId"] for path in document["paths"].values() for each in path.values()]
    assert len(names) == len(set(names)) > 60
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert "401" in operation["responses"], (method, path)
            assert operation["summary"]
            assert operation["description"], (method, path)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nowhere", None, 404, "not_found"),
        ("PUT", "/health", None, 405, "method_not_allowed"),
        ("POST", "/v1/sessions/shared/exec", {}, 422, "invalid_request"),
        ("POST", "/v1/sessions/shared/exec", {"command": 5}, 422, "invalid_request"),
        ("POST", "/v1/sessions/shared/exec", {"command": "ls", "comand": 1}, 422, "invalid_request"),
        ("POST", "/v1/sessions/shared/exec", {"command": "ls", "shell": "none"}, 404, "shell_not_found"),
        ("POST", "/v1/sessions/..%2Fx/exec", {"command": "ls"}, 404, "not_found"),
        ("GET", "/v1/sessions/shared/files/content?path=/tmp", None, 409, "session_file"),
        ("GET", "/v1/snapshots/nothing", None, 404, "snapshot_not_found"),
        ("POST", "/v1/sessions", {"memory": "1m"}, 400, "invalid_argument"),
    ],
)
def test_errors_have_a_code_and_a_line(
    server: Served, method: str, path: str, body: object, status: int, code: str
) -> None:
    error = server.call(method, path, body, status)["error"]
    assert error["code"] == code
    assert error["message"].startswith("cannot ")


def test_a_stopping_server_answers_waiting_callers(
    shared: Session, shared_cli: Cli, shared_home: Home
) -> None:
    """They learn that the command runs, and where to continue."""
    results: list[dict[str, object]] = []
    with serving(shared_cli, shared_home) as server:

        def wait(headers: dict[str, str], command: str) -> None:
            with httpx.Client(base_url=server.url, headers=server.headers, trust_env=False) as client:
                answer = client.post(
                    "/v1/sessions/shared/exec",
                    json={"command": command, "busy_wait": 60},
                    headers=headers,
                    timeout=90,
                )
                results.append(json.loads(answer.text.splitlines()[-1]))

        waiting = [threading.Thread(target=wait, args=(NDJSON, "echo lasting; sleep 600"))]
        waiting[0].start()
        assert polling.until(lambda: shared.shell().command_id is not None, 60)
        left = shared.shell().command_id
        waiting.append(threading.Thread(target=wait, args=({}, "touch /tmp/never")))
        waiting[1].start()
        assert polling.until(lambda: server.metric('holdfast_calls{kind="waiting"}') == 2, 60)
        time.sleep(0.5)
    for each in waiting:
        each.join(60)
    running = next(each for each in results if "error" not in each)
    refused = next(each for each in results if "error" in each)
    assert (running["command_id"], running["running"], running["exit_code"]) == (left, True, None)
    assert refused["error"]["code"] == "session_busy"  # type: ignore[index]
    shared.interrupt()
    assert shared.exec("ls /tmp/never").exit_code == 2
