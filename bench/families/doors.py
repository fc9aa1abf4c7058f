"""`exec true` through each door, compared with the same call in process."""

from __future__ import annotations

import http.client
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import count
from urllib.parse import urlsplit

from websockets.sync.client import connect

from bench.plan import Plan
from bench.rounds import batch, take_turns
from bench.row import Row
from bench.stats import Series, Target
from bench.world import World
from holdfast import RemoteHoldfast

FAMILY = "doors"
BATCH = 40
IN_PROCESS = "in process"
WEBSOCKET = "WebSocket"
HTTP = "HTTP, one connection"
CLIENT = "Python library over a URL"
MCP = "MCP, standard input and output"
SWE_REX = "wire of SWE-ReX, one connection"
E2B = "wire of E2B, bash -l -c true, one connection"
TARGETS = {
    WEBSOCKET: Target(2.0, "ratio", "a frame each way, and a thread"),
    HTTP: Target(3.0, "ratio", "the same, with heads to parse"),
}


def rows(world: World, plan: Plan) -> Iterator[Row]:
    """Measure, and yield median and p99."""
    session = world.session("doors")

    def in_process() -> None:
        if session.exec("true").exit_code != 0:
            raise RuntimeError("cannot run true in process")

    with ExitStack() as stack:
        url, token = stack.enter_context(_server(world))
        calls: dict[str, Callable[[], None]] = {
            IN_PROCESS: in_process,
            WEBSOCKET: stack.enter_context(_websocket(url, token)),
            HTTP: stack.enter_context(_http(url, token)),
            CLIENT: stack.enter_context(_client(url, token)),
            MCP: stack.enter_context(_mcp(world)),
            SWE_REX: stack.enter_context(_swe_rex(url, token)),
            E2B: stack.enter_context(_e2b(url, token)),
        }
        contenders = {name: batch(BATCH, call) for name, call in calls.items()}
        found = take_turns(plan.execute, contenders, world.tell)
    session.remove()
    baseline = Series(IN_PROCESS, "s", found.pop(IN_PROCESS))
    for name, samples in found.items():
        taken = Series("Holdfast", "s", samples)
        yield Row(FAMILY, f"exec true: {name}", taken, baseline=baseline, target=TARGETS.get(name))
        yield Row(FAMILY, f"exec true: {name}", taken, statistic="p99", baseline=baseline)


@contextmanager
def _server(world: World) -> Iterator[tuple[str, str]]:
    with _started(world, "serve", "--listen", "0", "--rate", "0") as process:
        assert process.stdout is not None
        url = process.stdout.readline().decode().split()[-1]
        yield url, (world.holdfast.home.root / "server-token").read_text().strip()


@contextmanager
def _started(world: World, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "HOLDFAST_HOME": str(world.holdfast.home.root)}
    command = [sys.executable, "-m", "holdfast", *words]
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        if process.stdin is not None:
            process.stdin.close()  # at whose end the server of agents ends
        process.terminate()
        process.wait(30)


@contextmanager
def _websocket(url: str, token: str) -> Iterator[Callable[[], None]]:
    headers, numbers = {"Authorization": f"Bearer {token}"}, count(1)
    place = f"{url.replace('http', 'ws', 1)}/v1/channels"
    with connect(place, additional_headers=headers, proxy=None, compression=None) as socket:

        def call() -> None:
            opened = {"open": next(numbers), "call": "exec", "session": "doors", "args": {"command": "true"}}
            socket.send(json.dumps(opened))
            while "result" not in (told := json.loads(socket.recv(timeout=60))):
                if "error" in told:
                    raise RuntimeError(f"cannot run true over the WebSocket: {told}")

        yield call


@contextmanager
def _client(url: str, token: str) -> Iterator[Callable[[], None]]:
    with RemoteHoldfast(url, token=token) as controller:
        session = controller.session("doors")

        def call() -> None:
            if session.exec("true").exit_code != 0:
                raise RuntimeError("cannot run true over a URL")

        yield call


@contextmanager
def _http(url: str, token: str) -> Iterator[Callable[[], None]]:
    with posting(url, {"Authorization": f"Bearer {token}"}) as post:

        def call() -> None:
            if json.loads(post("/v1/sessions/doors/exec", b'{"command": "true"}')).get("exit_code") != 0:
                raise RuntimeError("cannot run true over HTTP")

        yield call


@contextmanager
def _mcp(world: World) -> Iterator[Callable[[], None]]:
    """Speak to the server of agents as the older protocol does, without a library that takes time itself."""
    numbers = count(1)
    with _started(world, "mcp", "--session", "doors") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        sending, receiving = process.stdin, process.stdout

        def send(method: str, params: object, number: int | None = None) -> None:
            message = {"jsonrpc": "2.0", "method": method, "params": params}
            sending.write(json.dumps(message | ({} if number is None else {"id": number})).encode() + b"\n")
            sending.flush()

        def ask(method: str, params: object) -> object:
            number = next(numbers)
            send(method, params, number)
            while True:
                told = json.loads(receiving.readline())
                if told.get("id") == number:
                    return told["result"]

        about = {"name": "bench", "version": "1"}
        ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about})
        send("notifications/initialized", {})

        def call() -> None:
            told = str(ask("tools/call", {"name": "run", "arguments": {"command": "true"}}))
            if "exit 0" not in told:
                raise RuntimeError(f"cannot run true over MCP: {told[:300]}")

        yield call


@contextmanager
def _swe_rex(url: str, token: str) -> Iterator[Callable[[], None]]:
    with posting(url, {"X-API-Key": token}) as post:
        post("/swerex/doors/create_session", {"session_type": "bash"})
        command = {"action_type": "bash", "command": "true", "timeout": 60}

        def call() -> None:
            if b'"exit_code":0' not in post("/swerex/doors/run_in_session", command).replace(b" ", b""):
                raise RuntimeError("cannot run true over the wire of SWE-ReX")

        yield call


@contextmanager
def _e2b(url: str, token: str) -> Iterator[Callable[[], None]]:
    """Run a process in a sandbox of its own, which is a session, as `commands.run` of their clients does."""
    with posting(url, {"X-API-Key": f"e2b_{token}"}) as control:
        made = json.loads(control("/sandboxes", {"templateID": "base", "timeout": 3600}))
        try:
            headers = {
                "E2b-Sandbox-Id": made["sandboxID"],
                "E2b-Sandbox-Port": "49983",
                "X-Access-Token": made["envdAccessToken"],
                "Content-Type": "application/connect+json",
                "Connect-Protocol-Version": "1",
            }
            words = {"process": {"cmd": "/bin/bash", "args": ["-l", "-c", "true"]}, "stdin": False}
            body = json.dumps(words).encode()
            framed = struct.pack(">BI", 0, len(body)) + body
            with posting(url, headers) as post:

                def call() -> None:
                    if b'"exited":true' not in post("/process.Process/Start", framed).replace(b" ", b""):
                        raise RuntimeError("cannot run true over the wire of E2B")

                yield call
        finally:
            control(f"/sandboxes/{made['sandboxID']}", b"", "DELETE")


@contextmanager
def posting(url: str, headers: Mapping[str, str]) -> Iterator[Callable[..., bytes]]:
    """Yield a function that posts a body to a path over one connection, and returns the answer's."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)

    def send(path: str, body: Mapping[str, object] | bytes, method: str = "POST") -> bytes:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, content, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        told = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"cannot {method} {path}: {answer.status} {told[:300]!r}")
        return told

    yield send
    connection.close()
