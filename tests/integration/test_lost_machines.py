"""A session survives the loss of the machine it runs on: two real machines, PostgreSQL, a registry."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.machines.nodes import LOSS, TERMS, Lab

from holdfast.engine.engine import Engine
from holdfast.errors import HoldfastError, OutcomeUnknown, SessionPaused
from holdfast.images import build

STEP = 'n=$((n+1)); echo $n | tee /srv/step; [ -n "$began" ] || began=$RANDOM$RANDOM'


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A cluster without nodes yet."""
    engine = Engine.connect()
    try:
        images = [build.ensure(engine.images, kind) for kind in build.ALWAYS]
        with Lab(Path(tmp_path_factory.mktemp("lab")), images, engine) as made:
            yield made
    finally:
        engine.close()


pytestmark = pytest.mark.timeout(900)


class Agent(threading.Thread):
    """The loop of an agent: a command after the other over a URL, whatever happens to machines.

    It knows nothing of the cluster. `results` are the numbers that its commands have returned, with times.
    """

    def __init__(self, lab: Lab) -> None:
        super().__init__(daemon=True)
        self._lab = lab
        self.results: list[tuple[float, int]] = []
        self.errors: list[str] = []
        self.ends = threading.Event()

    def run(self) -> None:
        while not self.ends.is_set():
            try:
                with self._lab.client() as hf:
                    work = hf.session("work")
                    while not self.ends.is_set():
                        done = work.exec(STEP, timeout=30, patience=15)
                        self.results.append((time.monotonic(), int(done.text)))
                        time.sleep(0.3)
            except (HoldfastError, OSError, ValueError) as error:
                self.errors.append(f"{type(error).__name__}: {error}")
                time.sleep(0.5)


def test_an_agent_works_on_through_the_loss_of_its_machine(lab: Lab) -> None:
    """Same id, name, shell variables, kernel variables and files elsewhere; at most what its policy says is
    lost, and its journal says what; a call whose key the copy lacks is not made again.
    """
    first = lab.node("first")
    lab.lead_to(first)
    with lab.client() as hf:
        session = hf.new("work", labels={"of": "tests"})
        before = session.id
        session.exec("n=0; export COLOR=green; echo kept >/srv/file", timeout=60)
        session.cell("x = 41")
    lab.until(lambda: lab.store.session("work").copy, "a first copy")
    second = lab.node("second")
    agent = Agent(lab)
    agent.start()
    lab.until(lambda: len(agent.results) > 5, "the agent's loop")
    copy = lab.store.session("work").copy
    assert copy is not None
    lab.until(lambda: (lab.store.session("work").copy or copy).number > copy.number, "a newer copy")
    with lab.client() as hf:
        hf.session("work").exec("echo once >>/srv/once", key="once", timeout=30)
    time.sleep(2.5)  # the cluster is told of commands once a second
    last = agent.results[-1]
    first.lose()
    lost_at = time.monotonic()
    lab.lead_to(second)
    try:
        lab.until(lambda: agent.results[-1][0] > lost_at, f"commands elsewhere; errors: {agent.errors[-3:]}")
    finally:
        agent.ends.set()
        agent.join(60)
    _, at = next(each for each in agent.results if each[0] > lost_at)

    found = lab.store.session("work")
    assert (found.id, found.node, found.state) == (before, "second", "running")
    assert 0 < at <= last[1] + 1
    with lab.client() as hf:
        session = hf.session("work")
        assert (session.id, session.labels) == (before, {"of": "tests"})
        assert session.exec("echo $COLOR $(cat /srv/file)", timeout=60).text == "green kept\n"
        assert session.cell("x + 1").text == "42"
        (event,) = list(session.events(kinds=["recovered"]))
        loss = float(LOSS.removesuffix("s"))
        assert 0 <= event.data["lost_seconds"] <= loss + TERMS.beat_s * 2
        assert event.data["node"] == "first"
        if session.exec("cat /srv/once 2>/dev/null || true", timeout=30).text == "":
            assert any("once" in each for each in event.data["commands"])
            with pytest.raises(OutcomeUnknown, match="was recovered"):
                session.exec("echo once >>/srv/once", key="once", timeout=30)
    kinds = [each.kind for each in lab.store.events(before)]
    assert "recovered" in kinds


def test_a_node_that_is_cut_off_freezes_and_continues(lab: Lab) -> None:
    """At the end of its lease; each verb says why meanwhile. With the database back before anybody took the
    session, it continues as if nothing had been.
    """
    node = lab.nodes["second"]
    lab.lead_to(node)
    with lab.client() as hf:
        session = hf.session("work")
        session.exec(
            "i=0; while :; do i=$((i+1)); echo $i >/tmp/next; mv /tmp/next /tmp/count; sleep .05; done &"
        )
        node.cut(lab.postgres.port)
        lab.until(lambda: node.frozen() == ["work"], "the freeze")
        with pytest.raises(SessionPaused, match="the cluster's database is out of reach since"):
            session.exec("true", timeout=10)
        assert "out of reach" in node.machine.cli("exec", "work", "true").stderr
        node.kill_agent()
        time.sleep(1)
        assert node.frozen() == ["work"]  # the keeper does not need it
        node.reach(lab.postgres.port)
        node.start()
        lab.until(lambda: node.frozen() == [], "the thaw")
        assert session.exec(
            "a=$(cat /tmp/count); sleep 0.5; [ $(cat /tmp/count) -gt $a ]; echo $? $COLOR"
        ).text == ("0 green\n")


def test_a_keeper_that_is_killed_is_started_again(lab: Lab) -> None:
    """By the agent, at its next renewal; and one whose agent is killed stays."""
    node = lab.nodes["second"]
    before = node.keeper()
    assert before is not None
    os.kill(before, signal.SIGKILL)
    lab.until(lambda: node.keeper() not in (None, before), "another keeper", 20)


def test_a_returning_node_releases_sessions_that_continue_elsewhere(lab: Lab) -> None:
    """Its container never runs again: it is frozen when the lease ends, and killed while it is. Its files are
    kept aside.
    """
    stale = lab.nodes["second"]
    third = lab.node("third")
    found = lab.store.session("work")
    stale.cut(lab.postgres.port)
    lab.until(lambda: stale.frozen() == ["work"], "the freeze")
    counted = _count(stale)
    lab.until(lambda: lab.store.session("work").node == "third", "the takeover")
    lab.until(lambda: lab.store.session("work").state == "running", "the session elsewhere")
    assert lab.store.session("work").epoch == found.epoch + 1
    lab.lead_to(third)
    with lab.client() as hf:
        assert hf.session("work").exec("echo $COLOR", timeout=60).text == "green\n"
    assert _count(stale) == counted
    stale.reach(lab.postgres.port)
    lab.until(lambda: _states(stale) == {}, "the stale container let go")
    taken = stale.machine.cli("snapshots", "--json")
    assert "set_aside" in taken.stdout
    assert _count(third) > 0


def test_the_wrong_node_names_the_right_one(lab: Lab) -> None:
    """By 421 with its address, and `/v1/route` answers each for a proxy."""
    lab.lead_to(lab.nodes["second"])
    third = f"http://third:{lab.nodes['third'].port}"
    with lab.http() as client:
        answer = client.post("/v1/sessions/work/exec", json={"command": "true"})
        assert (answer.status_code, answer.headers["holdfast-node"]) == (421, third)
        assert answer.json()["error"]["code"] == "session_elsewhere"
        for headers in ({"x-original-uri": "/v1/sessions/work/exec"}, {"x-original-sandbox": "work"}):
            answer = client.get("/v1/route", headers=headers)
            assert (answer.status_code, answer.headers["holdfast-node"]) == (200, third)
        assert client.get("/v1/route", headers={"x-original-uri": "/v1/sessions"}).json()["node"] is None
        assert client.get("/v1/sessions/none").status_code == 404
        assert client.get("/v1/route", headers={"authorization": "Bearer x"}).status_code == 401


def _count(node: Any) -> int:
    """Return how far the program in the session has counted, read from outside of it."""
    for container in node.machine.engine.containers(holdfast_role="session"):
        state = node.machine.engine.inspect(container)
        if state is not None and state.pid:
            with suppress(OSError, ValueError):
                return int(Path(f"/proc/{state.pid}/root/tmp/count").read_text())
    return 0


def _states(node: Any) -> dict[str, str]:
    import json

    return {each["name"]: each["state"] for each in json.loads(node.machine.cli("ls", "--json").stdout)}
