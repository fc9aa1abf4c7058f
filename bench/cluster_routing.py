"""The cost of routing through a cluster's proxy: `python -m bench.cluster_routing`.

nginx with the shipped file in front of a node that only answers, against nginx with the same file and one
fixed node. Requests come one after the other over one connection, in turns of both, so that other work on the
machine meets both. The processor time is that of nginx, and of a node and its database for a question whose
answer nginx does not have.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.machines.nginx import Nginx, nginx_program
from tests.machines.postgres import Postgres

from holdfast.runtime.cluster.cluster_rows import NodeOffer, SessionOrder
from holdfast.runtime.cluster.cluster_store import ClusterStore

TURN = 500
PATIENCE = 30.0
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@dataclass(frozen=True)
class RoutingCost:
    """Milliseconds and processor microseconds for each request.

    `added_p50_ms` is the difference of the medians of both files; `question_…`: of one question to the
    database, asked once a second at most for each session.
    """

    requests: int
    fixed_p50_ms: float
    routed_p50_ms: float
    added_p50_ms: float
    fixed_processor_us: float
    routed_processor_us: float
    question_p50_ms: float
    question_processor_us: float


def fixed(text: str) -> str:
    """Return the shipped file without the question for the way."""
    text, removed = re.subn(r"(?m)^ *auth_request /.*\n", "", text)
    assert removed == 1, "the file asks for the way with one line"
    assert "proxy_pass $holdfast_way;" in text
    return text.replace("proxy_pass $holdfast_way;", "proxy_pass http://holdfast_1;")


def measured(requests: int) -> RoutingCost:
    """Measure it with this many requests through each file."""
    with tempfile.TemporaryDirectory(prefix="hf-route-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with (
            _node(folder / "node") as node,
            Nginx(folder / "routed", _free_port(), [node], "t" * 32) as routed,
            Nginx(folder / "fixed", _free_port(), [node], "t" * 32, fixed) as plain,
        ):
            took: dict[Nginx, list[float]] = {routed: [], plain: []}
            for proxy in took:
                _ask(proxy.port, TURN)  # warm
            before = {proxy: proxy.processor_seconds for proxy in took}
            for _ in range(max(1, requests // TURN)):
                for proxy, times in took.items():
                    times += _ask(proxy.port, TURN)
            count = len(took[routed])
            spent = {
                proxy: 1e6 * (proxy.processor_seconds - start) / count for proxy, start in before.items()
            }
    p50 = {proxy: 1000 * statistics.median(times) for proxy, times in took.items()}
    question_ms, question_us = _question(min(requests, 2000))
    return RoutingCost(
        requests=count,
        fixed_p50_ms=round(p50[plain], 3),
        routed_p50_ms=round(p50[routed], 3),
        added_p50_ms=round(p50[routed] - p50[plain], 3),
        fixed_processor_us=round(spent[plain], 1),
        routed_processor_us=round(spent[routed], 1),
        question_p50_ms=round(question_ms, 3),
        question_processor_us=round(question_us, 1),
    )


def _ask(port: int, count: int) -> list[float]:
    """Return how long each of these requests took, over one connection."""
    asked = b"GET /v1/sessions/work HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    took = []
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as made:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            began = time.perf_counter()
            made.sendall(asked)
            answer = b""
            while not answer.endswith(b"done"):
                piece = made.recv(65536)
                assert piece, answer
                answer += piece
            took.append(time.perf_counter() - began)
    return took


def _question(count: int) -> tuple[float, float]:
    """Return the median of a question's milliseconds, and its processor time, the database's included."""
    with Postgres() as server:
        store = ClusterStore(server.dsn)
        try:
            store.init()
            store.register(NodeOffer("one", "boot", "http://one", 64 << 30))
            store.place(SessionOrder("a" * 12, "work", 1 << 30))
            store.route("work")
            took, children = [], server.processor_seconds
            own = time.process_time()
            for _ in range(count):
                began = time.perf_counter()
                store.route("work")
                took.append(time.perf_counter() - began)
            spent = time.process_time() - own + server.processor_seconds - children
        finally:
            store.close()
    return 1000 * statistics.median(took), 1e6 * spent / count


@contextmanager
def _node(folder: Path) -> Iterator[str]:
    """Yield the address of a node that answers at once, by an nginx that says the way to itself."""
    folder.mkdir()
    port = _free_port()
    (folder / "nginx.conf").write_text(
        f"daemon off;\nuser root;\npid {folder}/pid;\nerror_log {folder}/log;\n"
        "events { worker_connections 512; }\nhttp { access_log off;\nkeepalive_requests 1000000;\n"
        + "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in TEMPORARY)
        + f"server {{ listen 127.0.0.1:{port};\nlocation = /v1/route {{\n"
        f'add_header Holdfast-Node "http://127.0.0.1:{port}"; return 200 "done"; }}\n'
        'location / { return 200 "done"; } }\n}\n'
    )
    process = subprocess.Popen(
        [nginx_program(), "-p", folder, "-e", folder / "log", "-c", folder / "nginx.conf"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + PATIENCE
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < until, (folder / "log").read_text()
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main(words: Iterable[str]) -> None:
    """Measure as the command line says, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster_routing")
    parser.add_argument("--requests", type=int, default=20_000)
    print(json.dumps(asdict(measured(parser.parse_args(list(words)).requests)), indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
