"""A session survives the loss of the machine it runs on: two real machines, PostgreSQL, a registry."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.machines.agent_loop import Agent
from tests.machines.nginx import Nginx
from tests.machines.nodes import TOKEN, Lab, Node, cluster

from holdfast.errors import OutcomeUnknown, SessionElsewhere, SessionPaused
from holdfast.runtime.node import session_return


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A cluster without nodes yet."""
    with cluster(Path(tmp_path_factory.mktemp("lab"))) as made:
        yield made


pytestmark = pytest.mark.timeout(900)


def test_an_agent_works_on_through_the_loss_of_its_machine(lab: Lab) -> None:
    """Same id, name, shell variables, kernel variables and files elsewhere; nothing is lost that came before
    the capture of a committed copy, and its journal says what came after; a call whose key the copy lacks is
    not made again.
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
    safe = agent.results[-1][1]
    # The next copy was possibly being captured already; the one after it began later than that command.
    lab.copied("work", after=lab.copied("work") + 1)
    with lab.client() as hf:
        hf.session("work").exec("echo once >>/srv/once", key="once", timeout=30, busy_wait=30)
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
    assert safe < at <= last[1] + 1
    with lab.client() as hf:
        session = hf.session("work")
        assert (session.id, session.labels) == (before, {"of": "tests"})
        assert session.exec("echo $COLOR $(cat /srv/file)", timeout=60).text == "green kept\n"
        assert session.cell("x + 1").text == "42"
        (event,) = list(session.events(kinds=["recovered"]))
        assert event.data["node"] == "first"
        assert event.data["lost_seconds"] >= 0
        lost = last[1] + 1 - at
        assert event.data["lost_commands"] <= lost + 1  # and the one with a key
        if session.exec("cat /srv/once 2>/dev/null || true", timeout=30).text == "":
            assert any("once" in each for each in event.data["commands"])
            with pytest.raises(OutcomeUnknown, match="was recovered"):
                session.exec("echo once >>/srv/once", key="once", timeout=30)
    kinds = [each.kind for each in lab.store.events(before)]
    assert "recovered" in kinds


def test_a_node_that_is_cut_off_freezes_and_continues(lab: Lab) -> None:
    """At the end of its lease; each verb says why until then. With the database back before anybody took
    the session, it continues as if nothing had been.
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
    # One copy was possibly being captured before the program began; the next began later.
    lab.copied("work", after=lab.copied("work") + 1)
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
    with stale.machine.holdfast() as controller:
        session_return.forget_set_aside(controller.context)
        assert "set_aside" in stale.machine.cli("snapshots", "--json").stdout
        session_return.forget_set_aside(controller.context, time.time() + session_return.DAY + 60)
    assert "set_aside" not in stale.machine.cli("snapshots", "--json").stdout
    lab.until(lambda: _count(third) > 0, "the program there")  # its file is read while it is being written


@pytest.fixture(scope="module")
def proxy(lab: Lab) -> Nginx:
    """nginx with the shipped file, in front of the nodes that are left."""
    return lab.proxy()


def test_the_wrong_node_names_the_right_one(lab: Lab) -> None:
    """By 421 with its address to callers who are let in, on each wire; `/v1/route` answers each for a
    proxy."""
    lab.lead_to(lab.nodes["second"])
    third = lab.nodes["third"].address
    work = lab.store.session("work").id
    e2b = {"x-api-key": TOKEN}
    with lab.http() as client:
        answer = client.post("/v1/sessions/work/exec", json={"command": "true"})
        assert (answer.status_code, answer.headers["holdfast-node"]) == (421, third)
        assert answer.json()["error"]["code"] == "session_elsewhere"
        for path, headers in (
            (f"/sandboxes/{work}", e2b),
            ("/jupyter/work/api/kernels", {}),
            ("/v1/sessions/work", {}),
        ):
            answer = client.get(path, headers=headers)
            assert (answer.status_code, answer.headers["holdfast-node"]) == (421, third), path
            answer = client.get(path, headers={**headers, "holdfast-routed": "1"})
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1"), path
            stranger = client.get(path, headers={"authorization": "Bearer x", "x-api-key": "x"})
            assert stranger.status_code == 401, path
            assert "holdfast-node" not in stranger.headers
        for headers in ({"x-original-uri": "/v1/sessions/work/exec"}, {"x-original-sandbox": "work"}):
            answer = client.get("/v1/route", headers=headers)
            assert (answer.status_code, answer.headers["holdfast-node"]) == (200, third)
        assert client.get("/v1/route", headers={"x-original-uri": "/v1/sessions"}).json()["node"] is None
        assert client.get("/v1/sessions/none").status_code == 404
        assert client.get("/v1/route", headers={"authorization": "Bearer x"}).status_code == 401
    with lab.client() as hf, pytest.raises(SessionElsewhere, match="node third has session work"):
        hf.session("work").exec("true", timeout=10)


def test_a_proxy_leads_each_request_to_the_node_of_its_session(lab: Lab, proxy: Nginx) -> None:
    """nginx and Caddy with the shipped files: HTTP, calls over WebSockets, E2B, Jupyter, and ports by their
    names.
    """
    lab.lead_to(lab.nodes["second"])
    with lab.client() as hf:
        hf.new("other").exec("export WHERE=second", timeout=60)
    lab.until(lambda: lab.store.session("other").node == "second", "the other session in the cluster")
    with lab.client(proxy.url) as hf:
        for name in ("work", "other"):
            serve = f"mkdir -p /srv/{name}; cd /srv/{name}; echo {name} >index.html"
            hf.session(name).exec(f"{serve}; python3 -m http.server 8000 >/dev/null 2>&1 &", timeout=60)
    _leads(lab, proxy.url)
    with lab.caddy() as caddy:
        _leads(lab, caddy.url)


def _leads(lab: Lab, url: str) -> None:
    """Use two sessions of two nodes on each wire."""
    with lab.client(url) as hf:
        for _ in range(2):
            assert hf.session("work").exec("echo $COLOR", timeout=60).text == "green\n"
            assert hf.session("other").exec("echo $WHERE", timeout=60).text == "second\n"
        links = {name: hf.session(name).preview(8000).url for name in ("work", "other")}
    with lab.http(url) as client:
        for name in ("work", "other", "work"):
            found = lab.store.session(name).id
            done = client.post(f"/v1/sessions/{name}/exec", json={"command": "echo $COLOR$WHERE"})
            assert done.json()["output"] in ("green\n", "second\n"), done.text
            assert client.get(f"/sandboxes/{found}", headers={"x-api-key": TOKEN}).status_code == 200
            assert (
                client.get(f"/jupyter/{name}/api/kernels").json()
                == client.get(f"/jupyter/{found}/api/kernels").json()
            )
            link = urlsplit(links[name])
            path = f"{link.path or '/'}?{link.query}"
            with httpx.Client(base_url=url, trust_env=False, follow_redirects=True) as browser:
                got = browser.get(path, headers={"host": link.netloc})
                assert got.text == f"{name}\n", (got.status_code, got.text, links[name])
        for path in ("/v1/sessions/work", f"/sandboxes/{found}", "/jupyter/work/api/kernels"):
            headers = {"authorization": "Bearer x", "x-api-key": "x"}
            assert client.get(path, headers=headers).status_code == 401
        assert client.get("/v1/sessions/none").status_code == 404


def test_a_drained_node_hands_its_sessions_over(lab: Lab, proxy: Nginx) -> None:
    """While they are used: nothing is lost, and clients are asked to return at most. A session that uses a
    folder of the machine is suspended there.
    """
    third = lab.nodes["third"]
    bound = third.machine.cli("new", "bound", "--mount", f"{lab.folder}:/mnt")
    assert bound.returncode == 0, bound.stderr
    lab.until(lambda: lab.store.session("bound").node == "third", "the bound session in the cluster")
    agent = Agent(lab, proxy.url)
    agent.start()
    lab.until(lambda: len(agent.results) > 3, f"the agent's loop: {agent.errors[-3:]}")
    before = lab.store.session("work")
    drained = third.machine.cli("cluster", "drain", "third", "--wait", **third.environment)
    assert drained.returncode == 0, drained.stderr
    assert "bound stays on third, suspended: it uses folders of this machine" in drained.stderr
    count = len(agent.results)
    lab.until(lambda: len(agent.results) > count + 3, f"commands elsewhere: {agent.errors[-3:]}")
    agent.ends.set()
    agent.join(60)
    after = lab.store.session("work")
    assert (after.node, after.state, after.epoch) == ("second", "running", before.epoch + 1)
    numbers = [number for _, number in agent.results]
    assert numbers == sorted(set(numbers)), "no state returns to an earlier one"
    assert numbers[-1] - numbers[0] < len(numbers) + len(agent.errors) + 1
    assert all(each.startswith("SessionMoving: ") for each in agent.errors), agent.errors
    assert [each["name"] for each in _listed(third)] == ["bound"]
    with lab.client(proxy.url) as hf:
        assert hf.session("work").exec("echo $COLOR $(cat /srv/file)", timeout=60).text == "green kept\n"
        kinds = [each.kind for each in hf.session("work").events()]
        assert "recovered" not in kinds
    assert third.machine.cli("rm", "bound").returncode == 0
    lab.store.undrain("third")


def test_a_session_that_sleeps_wakes_on_any_node(lab: Lab, proxy: Nginx) -> None:
    """It takes no memory of a node while it sleeps. Looking does not wake it, a command that is let in
    does."""
    with lab.client(proxy.url) as hf:
        hf.session("work").suspend()
    lab.until(lambda: lab.store.session("work").state == "asleep", "the sleep")
    sleeping = lab.store.session("work")
    assert sleeping.node is None
    assert all(node.sessions == len(lab.store.sessions(node=node.id)) for node in lab.store.nodes())
    lab.store.drain("second")  # where it was
    with lab.http(proxy.url) as client:
        assert client.get("/v1/sessions/work").status_code == 409
        asked = {"json": {"command": "echo $COLOR"}, "headers": {"authorization": "Bearer x"}}
        assert client.post("/v1/sessions/work/exec", **asked).status_code == 401  # type: ignore[arg-type]
        assert lab.store.session("work").state == "asleep"

        def woken() -> bool:
            done = client.post("/v1/sessions/work/exec", json={"command": "echo $COLOR"})
            if done.status_code == 503:
                assert done.headers["retry-after"] == "1"
                return False
            assert (done.status_code, done.json()["output"]) == (200, "green\n"), done.text
            return True

        lab.until(woken, "the wake")
    assert lab.store.session("work").node == "third"
    assert lab.store.session("work").epoch == sleeping.epoch + 1
    lab.store.undrain("second")


def test_a_home_has_one_agent(lab: Lab) -> None:
    """A second one is refused in one line."""
    node = lab.nodes["third"]
    words = ("node", "--registry", "127.0.0.1:1/x", "--listen", "127.0.0.1:0")
    second = node.machine.cli(*words, **node.environment)
    assert second.returncode == 1
    assert "cannot be the node of" in second.stderr
    assert "Traceback" not in second.stderr


def _listed(node: Node) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(node.machine.cli("ls", "--json").stdout)
    return found


def _count(node: Node) -> int:
    """Return how far the program in the session has counted, read from outside of it."""
    for container in node.machine.engine.containers(holdfast_role="session"):
        state = node.machine.engine.inspect(container)
        if state is not None and state.pid:
            with suppress(OSError, ValueError):
                return int(Path(f"/proc/{state.pid}/root/tmp/count").read_text())
    return 0


def _states(node: Node) -> dict[str, str]:
    return {each["name"]: each["state"] for each in _listed(node)}
