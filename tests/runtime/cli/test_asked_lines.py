"""`holdfast -v` shows what is asked of the engine and of sessions, and nothing that can be secret."""

from __future__ import annotations

import http.server
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.engine import engine_connection
from holdfast.engine.engine_place import EnginePlace
from holdfast.runtime.cli.asked_lines import AskedLines
from holdfast.runtime.guest.wire import protocol
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc.guest_client import Connection

SECRET = "hunter2-hunter2"


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have audit events shown, and return the lines: hooks cannot be removed, so `sys.audit` is replaced."""
    written: list[str] = []
    watch = AskedLines(written.append).watch
    monkeypatch.setattr(sys, "audit", lambda event, *arguments: watch(event, arguments))
    return written


class _Engine(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"ApiVersion": "1.41"}')

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def engine() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Engine) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_request_to_a_session_is_shown_by_its_name(lines: list[str]) -> None:
    """Its arguments and its payload are not."""
    ours, theirs = socket.socketpair()
    with theirs, Connection(ours) as connection:
        theirs.sendall(protocol.encode(Frame({"event": "done", "end": True})))
        connection.ask("exec", SECRET.encode(), text=SECRET, env={"TOKEN": SECRET})

    asked, answered = (line.split("s  ", 1)[1] for line in lines)
    assert asked == "asks session: exec"
    assert answered.startswith("session: exec took 0.")
    assert SECRET not in str(lines)


def test_a_request_to_the_engine_is_shown_without_its_query(lines: list[str], engine: str) -> None:
    """A query has the arguments of builds."""
    client = engine_connection.connected(EnginePlace(engine))
    try:
        engine_connection.asked(client, "/info", buildargs=SECRET)
    finally:
        client.close()

    assert lines[-2].endswith("s  asks engine: GET /v1.41/info")
    assert "  engine: GET /v1.41/info took 0." in lines[-1]
    assert SECRET not in str(lines)


def test_repeats_are_counted_and_ids_are_cut() -> None:
    """A wait asks the same a hundred times, and an id has 64 digits."""
    written: list[str] = []
    lines = AskedLines(written.append)
    for number, request in enumerate([f"GET /containers/{'ab' * 32}/json"] * 5 + ["GET /info"]):
        lines.watch("holdfast.asks", (number, "engine", request))
        lines.watch("holdfast.answered", (number,))

    assert [line.split("s  ", 1)[1].partition(" took")[0] for line in written] == [
        "asks engine: GET /containers/abababababab/json",
        "engine: GET /containers/abababababab/json",
        "the same 4 times more",
        "asks engine: GET /info",
        "engine: GET /info",
    ]


@pytest.mark.parametrize("executable", [None, "/usr/bin/docker", Path("/usr/bin/docker"), b"/usr/bin/docker"])
def test_a_program_is_shown_without_its_arguments(executable: object) -> None:
    written: list[str] = []
    AskedLines(written.append).watch(
        "subprocess.Popen", (executable, ["docker", SECRET], None, {"T": SECRET})
    )

    assert [line.split("s  ", 1)[1] for line in written] == ["starts docker"]


@pytest.mark.parametrize("error", [BrokenPipeError(), ValueError("I/O operation on closed file")])
def test_a_vanished_reader_does_not_end_a_request(error: Exception) -> None:
    """An exception in an audit hook would be raised by the request."""

    def fail(_line: str) -> None:
        raise error

    lines = AskedLines(fail)
    lines.watch("holdfast.asks", (1, "engine", "GET /info"))
    lines.watch("holdfast.answered", (1,))
    lines.watch("holdfast.answered", (1,))
    lines.watch("open", ("/etc/passwd",))


def test_the_option_stands_before_the_verb(tmp_path: Path, engine: str) -> None:
    """The whole way, in a process of its own; without the option nothing is written."""
    environment = {**os.environ, "HOLDFAST_HOME": str(tmp_path / "home"), "DOCKER_HOST": engine}
    environment |= {"HOLDFAST_REMOTE": "no"}
    for early, shown in (([], False), (["-v"], True)):
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *early, "image", "ls"],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ("asks engine: GET /" in done.stderr) is shown, done.stderr
