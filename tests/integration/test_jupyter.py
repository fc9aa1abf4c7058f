"""Front ends of Jupyter at the kernel of a real session, through everything that is done with sessions."""

from __future__ import annotations

import signal
from contextlib import AbstractContextManager

import httpx
import pytest
from tests.integration.conftest import Cli
from tests.integration.served import Served
from tests.runtime.jupyter.front_end import FrontEnd, joined
from websockets.exceptions import ConnectionClosed

from holdfast import Holdfast, Session
from holdfast.base.home import Home
from holdfast.runtime.lifetimes import session_ends

MIB = 1 << 20


def _front(server: Served, client: str, name: str) -> AbstractContextManager[FrontEnd]:
    kernels = server.get("/api/kernels")
    kernel = next(each["id"] for each in kernels if each["name"] == f"holdfast-{name}")
    return joined(server.url.replace("http:", "ws:"), server.headers, client, kernel, binary=True)


def test_a_front_end_keeps_its_kernel_through_captures_copies_and_sleep(
    server: Served, shared: Session, shared_hf: Holdfast
) -> None:
    """A cell runs across a snapshot; a fork has kernel and variables of its own; a resumed one the same."""
    shared.cell("import time; agents = [1]")
    with _front(server, "here", "shared") as front:
        asked = front.execute("for n in range(20):\n    agents.append(n); time.sleep(0.1)\nprint('whole')")
        taken = shared.snapshot()
        reply, text = front.done(asked)
        assert (reply["status"], text) == ("ok", "whole\n")
        assert front.value("len(agents)") == "21"
        assert shared.cell("len(agents)").text == "21"

        (copy,) = taken.fork(1, name="notebook")
        try:
            with _front(server, "there", "notebook") as other:
                assert int(other.value("len(agents)")) <= 21
                other.done(other.execute("agents = 'of the copy'"))
            copy.suspend()
            refused = server.client.get("/api/kernels")
            assert "holdfast-notebook" not in {each["name"] for each in refused.json()}
            shared_hf.session("notebook").resume()
            with _front(server, "there", "notebook") as other:
                assert other.value("agents") == "of the copy"
        finally:
            copy.remove()
        assert front.value("len(agents)") == "21"
    taken.remove()


def test_a_request_wakes_a_sleeping_session_and_a_look_does_not(server: Served, shared_hf: Holdfast) -> None:
    """The front end stays connected while its session sleeps, and its cell runs after the wake."""
    sleeper = shared_hf.new("sleeper", network="none")
    sleeper.cell("kept = 41")
    with _front(server, "waits", "sleeper") as front:
        assert front.value("kept") == "41"
        context = shared_hf.context
        session_ends.put_to_sleep(context, context.session_row(sleeper.id), "end")
        looked = front.send("shell", "kernel_info_request", {})
        names = {each["name"] for each in server.get("/api/kernels")}
        assert "holdfast-sleeper" in names
        assert sleeper.refresh().state == "suspended"
        asked = front.execute("print(kept + 1)")
        reply, text = front.done(asked)
        assert (reply["status"], text.strip()) == ("ok", "42")
        assert looked
        assert sleeper.refresh().state == "running"
    sleeper.remove()


def test_a_hundred_megabytes_of_output_pass_and_nobody_else_is_affected(
    server: Served, shared: Session, shared_hf: Holdfast
) -> None:
    """One front end reads all, one never reads; another session answers, and the server stays small."""
    other = shared_hf.new("other", network="none")
    with (
        _front(server, "heavy", "shared") as heavy,
        _front(server, "lazy", "shared"),
        _front(server, "apart", "other") as apart,
    ):
        assert apart.value("1") == "1"
        before = server.resident()
        asked = heavy.execute(f"for n in range(100): print(str(n % 10) * {MIB}, flush=True)")
        assert apart.value("6 * 7") == "42"
        reply, text = heavy.done(asked)
        assert reply["status"] == "ok"
        kept = [line for line in text.splitlines() if len(line) == MIB]
        assert len(kept) == 100 or "were not kept" in text
        assert apart.value("'after'") == "after"
        assert server.resident() - before < 160 * MIB
        assert heavy.value("n") == "99"
    other.remove()


def test_a_killed_server_costs_a_front_end_nothing_but_the_connection(
    shared: Session, shared_cli: Cli, shared_home: Home
) -> None:
    """The cell runs on; the same front end at the next server is sent its output and its reply."""
    words = ("serve", "--rate", "0", "--listen", "0")
    gate = "/tmp/gate-of-a-killed-server"
    shared.exec(f"rm -f {gate}")
    asked = ""
    for turn in range(2):
        with shared_cli.start(*words, stdout=-1) as process:
            assert process.stdout
            url = process.stdout.readline().decode().split()[-1]
            token = (shared_home.root / "server-token").read_text().strip()
            known = {"authorization": f"token {token}"}
            kernels = httpx.get(f"{url}/api/kernels", headers=known, trust_env=False).json()
            kernel = next(each["id"] for each in kernels if each["name"] == f"holdfast-{shared.name}")
            place = url.replace("http:", "ws:")
            with joined(place, known, "stays", kernel, binary=True) as front:
                if turn == 0:
                    asked = front.execute(
                        f"import os, time\nprint('a', flush=True)\n"
                        f"while not os.path.exists({gate!r}): time.sleep(0.05)\nprint('b')"
                    )
                    while front.next()[:2] != ("stream", asked):
                        pass
                    process.send_signal(signal.SIGKILL)
                    with pytest.raises(ConnectionClosed):
                        front.done(asked)
                else:
                    shared.exec(f"touch {gate}")
                    reply, text = front.done(asked)
                    assert (reply["status"], text.split()[-1]) == ("ok", "b")
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def test_a_session_that_ends_closes_its_front_ends_and_no_other(
    server: Served, shared: Session, shared_hf: Holdfast
) -> None:
    """With a reason; its kernel is not listed any more, and asking for it is answered with 404."""
    mortal = shared_hf.new("mortal", network="none")
    with _front(server, "left", "mortal") as left, _front(server, "stays", "shared") as stays:
        assert left.value("1") == "1"
        mortal.remove()
        with pytest.raises(ConnectionClosed) as closed:
            left.done("the end")
        assert closed.value.rcvd is not None
        assert "mortal" in closed.value.rcvd.reason or "session" in closed.value.rcvd.reason
        assert stays.value("6 * 7") == "42"
    names = {each["name"] for each in server.get("/api/kernels")}
    assert "holdfast-mortal" not in names
    assert server.client.get("/jupyter/mortal/api/kernels").status_code == 404
