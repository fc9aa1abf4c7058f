"""The server as a process of its own, and a client for it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.integration.conftest import Cli
from websockets.sync.client import ClientConnection, connect

from holdfast.base.home import Home

NDJSON = {"accept": "application/x-ndjson"}


class Served:
    """One server."""

    def __init__(self, url: str, token: str, process: subprocess.Popen[bytes]) -> None:
        self.url, self.token, self.process = url, token, process
        self.headers = {"authorization": f"Bearer {token}"}
        self.client = httpx.Client(base_url=url, headers=self.headers, timeout=120, trust_env=False)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def call(self, method: str, path: str, body: Any = None, status: int = 200, **more: Any) -> Any:
        """Return the answer to a request, which must have this status."""
        answer = self.client.request(method, path, json=body, **more)
        assert answer.status_code == status, (answer.status_code, answer.text[:2000])
        return answer.json() if answer.content else None

    def get(self, place: str, **params: Any) -> Any:
        return self.call("GET", place, params=params)

    def post(self, path: str, body: Any = None, status: int = 200, **more: Any) -> Any:
        return self.call("POST", path, body if body is not None else {}, status, **more)

    @contextmanager
    def events(self, method: str, path: str, body: Any = None, **more: Any) -> Iterator[Iterator[Any]]:
        """Yield the events of a call as they come."""
        with self.client.stream(method, path, json=body, headers=NDJSON, **more) as answer:
            assert answer.status_code == 200, answer.read()
            found = (json.loads(line) for line in answer.iter_lines())
            yield (each for each in found if each["event"] != "keepalive")

    def channels(self, **options: Any) -> ClientConnection:
        url = self.url.replace("http:", "ws:") + "/v1/channels"
        opened: ClientConnection = connect(
            url, additional_headers=self.headers, proxy=None, max_size=None, **options
        )
        return opened

    def metric(self, name: str) -> float:
        """Return one of the server's figures."""
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.client.get("/metrics").text, re.MULTILINE)
        assert found, name
        return float(found[1])

    def resident(self) -> int:
        """Return the bytes of its memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found
        return int(found[1]) << 10


class Over:
    """The command line of a machine that knows only the URL and the token."""

    def __init__(self, server: Served, home: Path) -> None:
        self.environment = {
            **os.environ,
            "HOLDFAST_URL": server.url,
            "HOLDFAST_TOKEN": server.token,
            "HOLDFAST_HOME": str(home),
            "DOCKER_HOST": "unix:///nowhere",
        }

    def __call__(self, *words: str, code: int = 0, given: str = "") -> str:
        """Return the output of a verb, or its standard error if it fails."""
        command = [sys.executable, "-m", "holdfast", *words]
        done = subprocess.run(
            command,
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, (words, done)
        assert "Traceback" not in done.stderr
        return done.stderr if code else done.stdout


@contextmanager
def serving(cli: Cli, home: Home, *options: str) -> Iterator[Served]:
    """Run a server on any free port; it must end on request."""
    log = home.root / "server.log"
    words = ("serve", "--listen", "0", "--rate", "0", *options)
    cli.environment.setdefault("PYTHONFAULTHANDLER", "1")
    with log.open("ab") as errors, cli.start(*words, stdout=subprocess.PIPE, stderr=errors) as process:
        assert process.stdout
        told = process.stdout.readline().decode()
        url = re.fullmatch(r"serving (http://127\.0\.0\.1:\d+)\n", told)
        assert url, (told, log.read_text())
        served = Served(url[1], (home.root / "server-token").read_text().strip(), process)
        try:
            yield served
        finally:
            served.client.close()
            process.send_signal(signal.SIGTERM)
            assert _ended(process) == 0, log.read_text()[-6000:]
    assert "Traceback" not in log.read_text(), log.read_text()[-4000:]


def _ended(process: subprocess.Popen[bytes]) -> int:
    """Return how it ended; one that does not end leaves the stacks of its threads in its log."""
    try:
        return process.wait(60)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        return process.wait(30)
