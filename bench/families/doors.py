"""`exec true` through each door, compared with the same call in process."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
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
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)

    def call() -> None:
        connection.request("POST", "/v1/sessions/doors/exec", b'{"command": "true"}', headers)
        answer = connection.getresponse()
        if json.loads(answer.read()).get("exit_code") != 0:
            raise RuntimeError("cannot run true over HTTP")

    yield call
    connection.close()


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
