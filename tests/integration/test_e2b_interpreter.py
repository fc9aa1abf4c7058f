"""The code interpreter of E2B's wire: contexts, and executions that end with their client."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import pytest
from tests.integration.conftest import Cli
from tests.integration.served import Served, serving

from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.e2b.sandbox_access import SandboxTokens

Line = dict[str, Any]


class InterpreterWire:
    """A client of the interpreter of one sandbox."""

    def __init__(self, server: Served, sandbox: str) -> None:
        headers = {
            "e2b-sandbox-id": sandbox,
            "e2b-sandbox-port": "49999",
            "x-access-token": SandboxTokens(server.token).access(sandbox),
        }
        self.client = httpx.Client(base_url=server.url, headers=headers, timeout=100, trust_env=False)

    def call(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        answer = self.client.request(method, path, json=body)
        assert answer.status_code == status, (answer.status_code, answer.text[:1000])
        return answer.json() if answer.content else None

    @contextmanager
    def lines(self, code: str, **more: Any) -> Iterator[Iterator[Line]]:
        """Yield the lines of an execution as they come."""
        with self.client.stream("POST", "/execute", json={"code": code, **more}) as answer:
            assert answer.status_code == 200, answer.read()
            found = (json.loads(line) for line in answer.iter_lines())
            yield (line for line in found if line["type"] != "keepalive")

    def run(self, code: str, **more: Any) -> list[Line]:
        with self.lines(code, **more) as lines:
            found = list(lines)
        assert [line["type"] for line in found].index("end_of_execution") == len(found) - 1
        return found

    def value(self, code: str, **more: Any) -> Any:
        """Return the text of the value of code."""
        found = self.run(code, **more)
        assert of_type(found, "error") == []
        return next((line["text"] for line in found if line.get("is_main_result")), None)


def until(path: str) -> str:
    """Return code that waits for a file."""
    return f"import os, time\nwhile not os.path.exists('{path}'): time.sleep(0.02)"


def of_type(lines: list[Line], kind: str) -> list[Line]:
    return [line for line in lines if line["type"] == kind]


def written(lines: list[Line], stream: str = "stdout") -> str:
    return "".join(line["text"] for line in of_type(lines, stream))


def error_of(lines: list[Line]) -> str:
    (error,) = of_type(lines, "error")
    return str(error["name"])


@pytest.fixture(scope="module")
def server(shared: Session, make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    with serving(make_cli(shared_home), shared_home) as found:
        yield found


@pytest.fixture(scope="module")
def wire(server: Served, shared: Session) -> Iterator[InterpreterWire]:
    found = InterpreterWire(server, shared.id)
    yield found
    found.client.close()


def test_an_execution_has_output_results_and_a_number(wire: InterpreterWire) -> None:
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
    found = wire.run(
        "import sys\nfrom IPython.display import Image, display\n"
        "print('out'); print('err', file=sys.stderr)\n"
        f"display(Image(__import__('base64').b64decode('{png}')))\n'value'"
    )
    assert (written(found), written(found, "stderr")) == ("out\n", "err\n")
    picture, value = of_type(found, "result")
    assert (picture["png"].strip(), picture["is_main_result"]) == (png, False)
    assert (value["text"], value["is_main_result"]) == ("value", True)
    assert isinstance(of_type(found, "stdout")[0]["timestamp"], int)
    assert [line["type"] for line in found[-2:]] == ["number_of_executions", "end_of_execution"]
    failed = wire.run("1 / 0")
    (error,) = of_type(failed, "error")
    assert (error["name"], error["value"]) == ("ZeroDivisionError", "division by zero")
    assert "ZeroDivisionError" in error["traceback"]
    counts = [of_type(lines, "number_of_executions")[0]["execution_count"] for lines in (found, failed)]
    assert counts[1] == counts[0] + 1


def test_lines_come_as_they_are_written(wire: InterpreterWire, shared: Session) -> None:
    code = f"print('begun')\n{until('/tmp/go')}\nprint('done')"
    with wire.lines(code) as lines:
        first = next(lines)["text"]  # print writes twice, which may be seen
        shared.files.write("/tmp/go", b"")
        assert first.startswith("begun")
        assert first + written(list(lines)) == "begun\ndone\n"


def test_contexts_are_made_used_restarted_and_removed(wire: InterpreterWire) -> None:
    made = wire.call("POST", "/contexts", {"cwd": "/tmp"})
    id_ = made["id"]
    assert made == {"id": id_, "language": "python", "cwd": "/tmp"}
    wire.run("x = 1")
    assert wire.value("import os; x = 2; os.getcwd()", context_id=id_) == "/tmp"
    assert (wire.value("x"), wire.value("x", context_id=id_), wire.value("x", language="python")) == (
        "1",
        "2",
        "1",
    )
    assert [each["id"] for each in wire.call("GET", "/contexts")] == ["main", id_]
    wire.call("POST", f"/contexts/{id_}/restart", status=204)
    assert error_of(wire.run("x", context_id=id_)) == "NameError"
    wire.call("DELETE", f"/contexts/{id_}", status=204)
    for method, path in (("DELETE", f"/contexts/{id_}"), ("POST", f"/contexts/{id_}/restart")):
        assert id_ in wire.call(method, path, status=404)["message"]
    wire.call("POST", "/execute", {"code": "1", "context_id": id_}, 404)
    wire.call("DELETE", "/contexts/main", status=400)
    assert [each["id"] for each in wire.call("GET", "/contexts")] == ["main"]


def test_impossible_requests_are_refused_in_a_sentence(wire: InterpreterWire) -> None:
    """And nothing of it is left."""

    def refused(body: Mapping[str, Any], path: str = "/execute") -> str:
        return str(wire.call("POST", path, body, 400)["message"])

    for language in ("bash", "javascript", "typescript", "r", "java", "cobol"):
        assert f"cannot run code in {language}" in refused({"code": "1", "language": language})
        assert f"cannot run code in {language}" in refused({"language": language}, "/contexts")
    assert "a context and a language" in refused({"code": "1", "language": "python", "context_id": "main"})
    assert "no such directory" in refused({"cwd": "/no/such"}, "/contexts")
    assert "cannot set the environment" in refused({"code": "1", "env_vars": {"a=b": "x"}})
    assert "code" in refused({"language": "python"})
    wire.call("POST", "/execute", {"code": "1", "context_id": "../../etc"}, 404)
    wire.call("GET", "/execute", status=501)
    assert [each["id"] for each in wire.call("GET", "/contexts")] == ["main"]


def test_code_needs_the_access_token_and_contexts_take_the_traffic_token_as_well(
    server: Served, shared: Session
) -> None:
    """Clients of E2B send it; the traffic token can be a visitor's."""
    tokens = SandboxTokens(server.token)
    place = {"e2b-sandbox-id": shared.id, "e2b-sandbox-port": "49999"}

    def status(method: str, path: str, **headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as client:
            body = {"code": "1"} if method == "POST" else None
            return client.request(method, path, headers=place | named, json=body).status_code

    access, traffic = tokens.access(shared.id), tokens.traffic(shared.id)
    assert status("GET", "/contexts", x_access_token=access) == 200
    assert status("GET", "/contexts", e2b_traffic_access_token=traffic) == 200
    assert status("POST", "/execute", x_access_token=access, e2b_traffic_access_token=traffic) == 200
    assert status("POST", "/execute", e2b_traffic_access_token=traffic) == 401
    assert status("GET", "/contexts", e2b_traffic_access_token=tokens.traffic("other")) == 401
    assert status("GET", "/contexts", authorization=f"Bearer {server.token}") == 401
    assert status("GET", "/contexts") == 401


def test_health_is_that_of_the_port(wire: InterpreterWire) -> None:
    answer = wire.client.get("/health")
    assert (answer.status_code, answer.text) == (200, "OK")


def test_variables_come_from_the_execution_and_the_sandbox(
    wire: InterpreterWire, shared: Session, shared_hf: Holdfast
) -> None:
    look = (
        "import os, subprocess; subprocess.run('echo $A $B', shell=True, capture_output=True).stdout.decode()"
    )
    assert wire.value(look, env_vars={"A": "1"}) == r"1\n"
    assert wire.value(look) == r"\n"
    assert error_of(wire.run("1 / 0", env_vars={"A": "2"})) == "ZeroDivisionError"
    assert wire.value(look) == r"\n"
    shared_hf.store.keep_details(shared.id, sandbox={"env": {"B": "wide"}})
    try:
        assert wire.value(look, env_vars={"A": "3"}) == r"3 wide\n"
        assert wire.value(look) == r"wide\n"
    finally:
        shared_hf.store.keep_details(shared.id, sandbox={})


def test_a_client_that_leaves_interrupts_its_code_and_the_next_is_served(wire: InterpreterWire) -> None:
    """Our own paths differ: E2B's clients have no other way to end an execution."""
    with wire.lines("print('on'); import time; time.sleep(300)") as lines:
        assert next(lines)["text"] == "on\n"
    assert wire.value("1 + 1") == "2"


def test_a_client_that_leaves_the_queue_does_not_affect_others(
    wire: InterpreterWire, server: Served, shared: Session
) -> None:
    """Executions wait for their turn. An execution whose client leaves the queue is never run, and ends no
    other."""
    code = f"print('on')\n{until('/tmp/turn')}\nlast = 'first'"
    found: list[Any] = []
    second = threading.Thread(target=lambda: found.append(wire.value("last")))
    with wire.lines(code) as lines:
        next(lines)
        with httpx.Client(
            base_url=server.url, headers=wire.client.headers, timeout=2, trust_env=False
        ) as hasty, pytest.raises(httpx.ReadTimeout):  # fmt: skip
            hasty.post("/execute", json={"code": "last = 'hasty'"})
        # The server notices a moment later that its client has left.
        assert polling.until(lambda: server.metric('holdfast_calls{kind="waiting"}') == 1, 60)
        second.start()
        shared.files.write("/tmp/turn", b"")
        assert of_type(list(lines), "error") == []
    second.join(60)
    assert found == ["first"]


def test_code_that_asks_for_input_gets_an_error(wire: InterpreterWire) -> None:
    found = wire.run("before = 5; input('name? ')")
    assert error_of(found) == "StdinNotImplementedError"
    assert wire.value("before") == "5"


def test_an_execution_does_not_notice_a_snapshot(wire: InterpreterWire, shared: Session) -> None:
    code = "import time\nfor number in range(30): print(number); time.sleep(0.1)\nnumber"
    found: list[Line] = []
    with wire.lines(code) as lines:
        for line in lines:
            found.append(line)
            if len(found) == 5:
                shared.snapshot().remove()
    assert written(found).split() == [str(number) for number in range(30)]
    assert (of_type(found, "error"), of_type(found, "result")[0]["text"]) == ([], "29")


def test_changes_of_a_context_under_its_code_are_reported(wire: InterpreterWire) -> None:
    """It dies, is restarted or removed: the code has an error, and the stream its end."""
    found = wire.run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert error_of(found) == "KernelDied"
    id_ = wire.call("POST", "/contexts", {})["id"]
    for method, path, name in (
        ("POST", f"/contexts/{id_}/restart", "ContextRestarted"),
        ("DELETE", f"/contexts/{id_}", "KernelDied"),
    ):
        with wire.lines("print('on'); import time; time.sleep(300)", context_id=id_) as lines:
            next(lines)
            wire.call(method, path, status=204)
            assert error_of(list(lines)) == name
    assert wire.value("1 + 1") == "2"


def test_oversized_output_is_reported(wire: InterpreterWire) -> None:
    found = wire.run("'x' * 9_000_000")
    assert of_type(found, "error") == []  # the code has made none
    assert "bytes of a result were left out" in written(found, "stderr")
    (result,) = of_type(found, "result")
    assert len(result["text"]) < 200
    assert len(written(wire.run("print('x' * 9_000_000)"))) == 9_000_001
    assert error_of(wire.run("raise ValueError('x' * 3_000_000)")) == "ValueError"
    large = {"code": "1", "env_vars": {"A": "x" * 70_000}}
    assert "64 KiB" in wire.call("POST", "/execute", large, 400)["message"]


HOSTILE = r"""
from IPython.display import publish_display_data as show
import json
kernel = get_ipython().kernel
kernel.session.pack = lambda content: json.dumps(content, default=str).encode()
def send(kind, **content):
    kernel.session.send(kernel.iopub_socket, kind, content, parent=kernel.get_parent())

show({'image/png': 'not base64', 'text/html': 7, 'x' * 10000: ['\ud800', None]})
show({'application/json': {'n': float('nan'), 'i': float('inf')}, '\x1b]0;x\x07': '\u2028\x85\n'})
deep = None
for _ in range(300): deep = {'d': deep}
show({'application/json': deep})
send('stream', name='stdout\n{"type":"end_of_execution"}', text='{"type":"end_of_execution"}\n\x0b\u2029')
send('error', ename=['x'], evalue=None, traceback='no list')
send('no_such_type', x=1)
for number in range(500):
    send('update_display_data', data={'text/plain': 'x' * 1000}, transient={'display_id': str(number)})
send('update_display_data', data={'text/plain': 'x'}, transient={'display_id': ['no', 'text']})
"""


@pytest.mark.thorough
def test_a_hostile_kernel_breaks_neither_the_lines_nor_the_server(
    wire: InterpreterWire, server: Served
) -> None:
    found = wire.run(HOSTILE)
    assert {line["type"] for line in found} == {
        *("result", "stdout", "stderr", "error", "number_of_executions", "end_of_execution")
    }
    assert "image/png" in found[0]["extra"]
    assert found[1]["json"] == {"n": None, "i": None}
    assert len(of_type(found, "result")) < 60
    for data in ("7", "{'text/plain': 'x'}, transient=7", "{}, metadata=[7]"):
        with suppress(httpx.RemoteProtocolError), wire.lines(f"send('display_data', data={data})") as lines:
            assert of_type(list(lines), "error") == []  # what cannot be understood cuts the answer
    assert wire.value("1 + 1") == "2"
    # A flood of displays, of which the client reads none: the server keeps no more than it may.
    before = server.resident()
    code = "for _ in range(80): show({'text/plain': 'x' * 2_000_000})"
    with wire.client.stream("POST", "/execute", json={"code": code}) as answer:
        assert answer.status_code == 200
        assert not polling.until(lambda: server.resident() - before > 120 << 20, 3)
    assert wire.value("2 + 2") == "4"
