"""A session that does not answer, asked with its own token again and again, takes nothing from the others."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from tests.integration.conftest import Cli
from tests.integration.file_wire import FileWire
from tests.integration.served import Served, serving

from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

CALLS = 64
"""As many as the server does at once."""
PATIENCE = 120.0


@pytest.fixture(scope="module")
def server(shared: Session, make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    with serving(make_cli(shared_home), shared_home) as found:
        yield found


def _stop(session: Session) -> bool:
    """Let root in a session stop all that runs in it, its supervisor included; whether that took place."""
    state = session._context.engine.inspect(str(session.row.container_id))
    assert state is not None
    os.kill(state.pid, signal.SIGSTOP)  # else it lets the supervisor continue
    others = "for p in /proc/[0-9]*; do [ ${p#/proc/} = $$ ] || kill -STOP ${p#/proc/}; done"
    session.detach(f"sleep 0.5; {others}")

    def stopped() -> bool:
        children = Path(f"/proc/{state.pid}/task/{state.pid}/children").read_text().split()
        stats = [Path(f"/proc/{each}/stat").read_text() for each in children]
        return bool(stats) and all(text.rpartition(") ")[2].startswith("T") for text in stats)

    return polling.until(stopped, PATIENCE)


def test_a_silent_session_starves_no_other(server: Served, shared: Session, shared_hf: Holdfast) -> None:
    """Its own callers are refused beyond its share; it can still be looked at, and ended."""
    silent = shared_hf.new()
    shared.exec("echo well > /tmp/well")
    other = FileWire(server, shared.id)
    answers: list[httpx.Response] = []
    over = threading.Event()

    def ask(number: int) -> None:
        """Ask until the others have been served: each that is refused asks again."""
        wire = FileWire(server, silent.id)
        try:
            while not over.is_set():
                if number % 2:
                    answers.append(wire.get("/etc/hostname"))
                else:
                    answers.append(wire.client.post("/filesystem.Filesystem/Stat", json={"path": "/"}))
        finally:
            wire.close()

    assert _stop(silent)
    with ThreadPoolExecutor(CALLS) as pool:
        try:
            asking = [pool.submit(ask, number) for number in range(CALLS)]
            assert polling.until(lambda: any(each.status_code == 503 for each in answers), PATIENCE)
            for _ in range(20):
                assert other.get("/tmp/well").text == "well\n"
            refused = next(each for each in answers if each.status_code == 503)
            assert "calls into one session at a time" in refused.json()["message"]
            assert refused.headers["retry-after"] == "1"
            assert server.get(f"/v1/sessions/{silent.id}")["state"] == "running"
            server.call("DELETE", f"/v1/sessions/{silent.id}", status=204)
        finally:
            over.set()
            for each in asking:
                each.result(PATIENCE)
    assert {each.status_code for each in answers} <= {401, 502, 503}
    assert polling.until(lambda: server.metric('holdfast_calls{kind="brief"}') == 0, PATIENCE)
    other.close()
