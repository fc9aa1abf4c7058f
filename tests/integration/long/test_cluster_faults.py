"""Faults of machines, networks, the database and the registry of a cluster: two real machines, PostgreSQL, a
registry. Each test leaves both nodes at work.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from tests.machines import loop_disk
from tests.machines.agent_loop import Agent
from tests.machines.nginx import Nginx
from tests.machines.nodes import TERMS, Lab, Node, cluster
from tests.machines.postgres import Postgres
from tests.machines.unpacked import program

from holdfast.base import node_lease
from holdfast.errors import ServerUnavailable, SessionMoving, SessionPaused
from holdfast.runtime.cluster.cluster_rows import ClusterSession

pytestmark = pytest.mark.timeout(900)

DISK_BYTES = 8 << 30
"""Size of the registry's disk; it takes what is written to it."""
COUNTS = "i=0; while :; do i=$((i+1)); echo $i >/tmp/next; mv /tmp/next /tmp/count; sleep .05; done &"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A cluster of two nodes."""
    folder = Path(tmp_path_factory.mktemp("lab"))
    disk, registry = folder / "disk.img", folder / "registry"
    registry.mkdir()
    loop_disk.make(disk, "ext4", DISK_BYTES)
    loop_disk.mount(disk, registry, "ext4")
    try:
        with cluster(folder) as made:
            for name in ("one", "two"):
                made.node(name)
            made.until(lambda: len(made.store.nodes()) == 2, "both nodes in the cluster")
            yield made
    finally:
        loop_disk.run("umount", str(registry))


@pytest.fixture
def one(lab: Lab) -> Node:
    """The node that gets the sessions of a test."""
    lab.lead_to(lab.nodes["one"])
    return lab.nodes["one"]


@pytest.fixture
def alone(lab: Lab, one: Node) -> Iterator[Node]:
    """That node, while no other gets its sessions: they return to it, however long its agent is away."""
    lab.store.drain("two")
    yield one
    lab.store.undrain("two")


@pytest.fixture(scope="module")
def proxy(lab: Lab) -> Nginx:
    """nginx with the shipped file."""
    return lab.proxy()


def _made(lab: Lab, name: str, **options: Any) -> ClusterSession:
    """Make a session on the node that the door leads to, with a shell variable, and wait for its copy."""
    with lab.client() as hf:
        hf.new(name, **options).exec("n=0; COLOR=green", timeout=60)
    lab.copied(name)
    return lab.store.session(name)


def _color(lab: Lab, node: Node, name: str) -> str:
    """Return a shell variable of a session, once it answers: on a busy machine, its lease can be over."""
    lab.lead_to(node)
    found: list[str] = []

    def answers() -> bool:
        with suppress(SessionPaused, SessionMoving, ServerUnavailable), lab.client() as hf:
            found.append(hf.session(name).exec("echo $COLOR", timeout=60).text)
        return bool(found)

    lab.until(answers, f"an answer of {name}")
    return found[0]


def _removed(lab: Lab, name: str) -> None:
    lab.lead_to(lab.nodes[str(lab.store.session(name).node)])
    with lab.client() as hf:
        hf.session(name).remove()
    lab.until(lambda: all(each.name != name for each in lab.store.sessions()), f"{name} removed")


def _runs_on(lab: Lab, name: str, node: str) -> bool:
    found = lab.store.session(name)
    return (found.node, found.state) == (node, "running")


def _kinds(lab: Lab, session: ClusterSession) -> list[str]:
    return [each.kind for each in lab.store.events(session.id)]


def test_a_killed_agent_finds_its_sessions_again(lab: Lab, alone: Node) -> None:
    """They run on meanwhile, and no other node takes them."""
    before = _made(lab, "work")
    with lab.client() as hf:
        hf.session("work").exec(COUNTS)
    alone.kill_agent()
    alone.start()
    lab.until(lambda: _color(lab, alone, "work") == "green\n", "the session under the next agent")
    with lab.client() as hf:
        counting = "a=$(cat /tmp/count); until [ $(cat /tmp/count) -gt $a ]; do sleep .05; done; echo $a"
        assert int(hf.session("work").exec(counting, timeout=60).text) > 0
    assert lab.store.session("work").epoch == before.epoch
    assert "recovered" not in _kinds(lab, before)
    _removed(lab, "work")


def test_without_agent_and_keeper_the_kernel_closes_the_network(lab: Lab, alone: Node) -> None:
    """Nothing is left that could freeze; at the end of the lease, no packet reaches the session or leaves it.
    Its loopback works. The next agent opens its network again.
    """
    _made(lab, "gate", allow=["172.17.0.1:9000"])
    address, (bridge, *_) = alone.addresses(lab.store.session("gate").id)
    with lab.client() as hf:
        session = hf.session("gate")
        session.exec("cd /srv; python3 -m http.server 8000 >/dev/null 2>&1 &", timeout=60)
        session.exec("until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000))'; "
                     "do sleep .1; done", timeout=60)  # fmt: skip
    assert bridge == "172.17.0.1"
    outside = _Listener(alone, bridge, 9000)
    try:
        out = f"python3 -c 'import socket; socket.create_connection((\"{bridge}\", 9000), 1)'; echo $?"
        inside = "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000), 1)'; echo $?"
        assert alone.reaches(address, 8000)
        assert alone.machine.cli("exec", "gate", out).stdout == "0\n"
        alone.kill_agent()
        keeper = alone.keeper()
        assert keeper is not None
        os.kill(keeper, signal.SIGKILL)
        lab.postgres.freeze()  # so that the other node does not take the session over
        try:
            lab.until(lambda: not alone.reaches(address, 8000), "the end of the lease at the network")
            assert alone.machine.cli("exec", "gate", out).stdout.endswith("1\n")
            assert alone.machine.cli("exec", "gate", inside).stdout == "0\n"
            assert alone.frozen() == []  # by nothing else than its network
        finally:
            lab.postgres.thaw()
        alone.start()
        lab.until(lambda: alone.reaches(address, 8000), "the network under the next lease")
        lab.until(lambda: alone.machine.cli("exec", "gate", out).stdout == "0\n", "its way out")
    finally:
        outside.close()
    _removed(lab, "gate")


class _Listener:
    """Something that listens on an address of a machine."""

    def __init__(self, node: Node, address: str, port: int) -> None:
        self._process = subprocess.Popen(
            node.machine.command(sys.executable, "-m", "http.server", str(port), "--bind", address),
            env=node.machine.environment,
            cwd="/var/empty" if Path("/var/empty").is_dir() else "/usr/share/doc",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while not node.reaches(address, port):
            assert self._process.poll() is None
            time.sleep(0.1)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def test_a_session_whose_container_ends_returns_from_its_copy(lab: Lab, one: Node) -> None:
    """Killed by an administrator; and with all others when the engine crashes."""
    before = _made(lab, "work")
    ends: tuple[Callable[[], None], ...] = (lambda: _kill(one, before.id), one.crash_engine)
    for end in ends:
        epoch = lab.store.session("work").epoch
        end()
        lab.until(lambda epoch=epoch: lab.store.session("work").epoch > epoch, "another epoch")  # type: ignore[misc]
        lab.until(lambda: lab.store.session("work").state == "running", "the session")
        node = lab.nodes[str(lab.store.session("work").node)]
        assert _color(lab, node, "work") == "green\n"
        with lab.client() as hf:
            assert hf.session("work").id == before.id
            told = list(hf.session("work").events(kinds=["recovered"]))
        assert told, "its journal says what was lost"
        lab.copied("work", after=lab.copied("work"))
    _removed(lab, "work")


def _kill(node: Node, session: str) -> None:
    for container, labels in node.machine.engine.containers(holdfast_role="session").items():
        if labels.get("holdfast.session") == session:
            node.machine.engine.signal(container, signal.SIGKILL)


def test_a_node_that_clients_cannot_reach_keeps_its_sessions(lab: Lab, one: Node, proxy: Nginx) -> None:
    """The proxy asks them to come again, and leads to it when it is back; nothing is taken over."""
    before = _made(lab, "work")
    with lab.http(proxy.url) as client:

        def asked() -> httpx.Response:
            return client.post("/v1/sessions/work/exec", json={"command": "echo $COLOR"})

        lab.until(lambda: asked().status_code == 200, "the proxy")
        one.leave_clients()
        seen = asked()
        assert (seen.status_code, seen.headers["retry-after"]) == (503, "2"), seen.text
        lab.copied("work", after=lab.copied("work") - 1)
        one.let_clients_in()
        lab.until(lambda: asked().status_code == 200, "the way back")
    assert lab.store.session("work").epoch == before.epoch
    _removed(lab, "work")


def test_a_node_that_cannot_reach_the_registry_says_so(lab: Lab, one: Node) -> None:
    """Its sessions work on; their copies age, which is an event; afterwards there is another copy."""
    _made(lab, "work")
    one.cut(lab.registry.port)
    with lab.client() as hf:
        session = hf.session("work")
        session.exec("COLOR=blue")
        lab.until(lambda: list(session.events(kinds=["durability_broken"])), "the alarm")
        assert session.exec("echo $COLOR").text == "blue\n"
        number = lab.copied("work")
        one.reach(lab.registry.port)
        lab.copied("work", after=number)
        lab.until(lambda: list(session.events(kinds=["durable_again"])), "the end of the alarm")
    _removed(lab, "work")


def test_a_full_registry_says_so(lab: Lab, one: Node) -> None:
    """As one that is out of reach: sessions work on, and there are copies again once it has room."""
    _made(lab, "work")
    disk = lab.registry.folder
    filler = disk / "filler"
    loop_disk.run("fallocate", "-l", str(shutil.disk_usage(disk).free - (1 << 20)), str(filler))
    with lab.client() as hf:
        session = hf.session("work")
        session.exec("COLOR=blue; head -c 8000000 /dev/urandom >/srv/new", timeout=60)
        lab.until(lambda: list(session.events(kinds=["durability_broken"])), "the alarm")
        assert session.exec("echo $COLOR").text == "blue\n"
        (told,) = list(session.events(kinds=["durability_broken"]))
        assert told.data["why"]
        number = lab.copied("work")
        filler.unlink()
        lab.copied("work", after=number)
        lab.until(lambda: list(session.events(kinds=["durable_again"])), "the end of the alarm")
    _removed(lab, "work")


def test_a_damaged_copy_is_refused_by_its_digest(lab: Lab, one: Node) -> None:
    """No node starts a session from it: each that tries says why, and the session waits for another one."""
    _made(lab, "work")
    with lab.client() as hf:
        hf.session("work").suspend()
    lab.until(lambda: lab.store.session("work").state == "asleep", "the sleep")
    found = lab.store.session("work")
    assert found.copy is not None
    lab.store.drain("one")  # which still has the snapshot, and need not fetch it
    digest = re.search(r"sha256:([0-9a-f]{64})$", found.copy.reference)
    assert digest, found.copy.reference
    for kind in sorted((lab.registry.folder / "blobs").glob("docker/registry/v2/blobs/sha256/*/*/data")):
        data = bytearray(kind.read_bytes())
        if len(data) > 100_000:
            data[len(data) // 2] ^= 255
            kind.write_bytes(data)
    lab.store.wake(found.id)
    lab.until(lambda: lab.store.session("work").state == "waiting_for_node", "the refusal")
    waits = lab.store.session("work")
    assert "two" in waits.reason, waits.reason
    assert not list(lab.nodes["two"].machine.engine.containers(holdfast_role="session"))
    lab.store.undrain("one")
    lab.until(lambda: _runs_on(lab, "work", "one"), "the node that has the snapshot itself")
    assert _color(lab, one, "work") == "green\n"
    _removed(lab, "work")
    lab.empty_registry()


def test_a_node_that_hears_no_answers_freezes(lab: Lab, one: Node) -> None:
    """Its renewals arrive and count for the others; what counts for itself is the answer."""
    before = _made(lab, "work")
    one.silence(lab.postgres.port)
    lab.until(lambda: one.frozen() == ["work"], "the freeze")
    with lab.client() as hf, pytest.raises(SessionPaused, match="out of reach since"):
        hf.session("work").exec("true", timeout=10)
    one.cut(lab.postgres.port)
    one.reach(lab.postgres.port)
    lab.until(lambda: one.frozen() == [], "the thaw, or the takeover")
    lab.until(lambda: lab.store.session("work").state == "running", "the session")
    found = lab.store.session("work")
    assert _color(lab, lab.nodes[str(found.node)], "work") == "green\n"
    assert (found.node == "one") == (found.epoch == before.epoch)
    _removed(lab, "work")


def test_an_outage_of_the_database_takes_nothing_over(lab: Lab, one: Node) -> None:
    """One within the lease changes nothing. In a longer one all nodes freeze; afterwards all continue, each
    session where it was.
    """
    first = _made(lab, "work")
    lab.lead_to(lab.nodes["two"])
    second = _made(lab, "other")
    lab.postgres.stop()
    assert _color(lab, one, "work") == "green\n"
    lab.postgres.start()
    lab.until(lambda: one.frozen() == lab.nodes["two"].frozen() == [], "no freeze that stays")
    assert _color(lab, one, "work") == "green\n"
    lab.postgres.stop()
    lab.until(lambda: one.frozen() == ["work"], "the freeze")
    lab.until(lambda: lab.nodes["two"].frozen() == ["other"], "the freeze of the other node")
    time.sleep(TERMS.ttl_s + TERMS.margin_s)  # longer than others wait
    lab.postgres.start()
    lab.until(lambda: one.frozen() == lab.nodes["two"].frozen() == [], "the thaw")
    assert _color(lab, one, "work") == _color(lab, lab.nodes["two"], "other") == "green\n"
    for before in (first, second):
        found = lab.store.session(before.id)
        assert (found.node, found.epoch) == (before.node, before.epoch)
        assert "taken_over" not in _kinds(lab, before)
    for name in ("work", "other"):
        _removed(lab, name)


def test_a_database_that_fails_over_and_forgets_a_move(lab: Lab, one: Node) -> None:
    """The row names the former node again; the one that has the session corrects it, and it runs once."""
    before = _made(lab, "work")
    lab.postgres.stop()
    standby = Postgres.copy_of(lab.postgres)
    standby.listen, standby.port = lab.postgres.listen, lab.postgres.port
    lab.postgres.start()
    lab.store.drain("one")
    lab.until(lambda: _runs_on(lab, "work", "two"), "the session on the other node")
    moved = lab.store.session("work")
    lab.postgres.kill()
    standby.promote()
    lab.fail_over_to(standby)
    lab.until(lambda: lab.store.session("work").epoch == moved.epoch, "the correction")
    lab.until(lambda: _runs_on(lab, "work", "two"), "the session")
    assert "corrected" in _kinds(lab, before)
    assert _color(lab, lab.nodes["two"], "work") == "green\n"
    lab.until(lambda: _names(one) == [], "nothing of it on the former node")
    assert all(node.state != "lost" for node in lab.store.nodes())
    lab.store.undrain("one")
    _removed(lab, "work")


def _names(node: Node) -> list[str]:
    return [each["name"] for each in json.loads(node.machine.cli("ls", "--json").stdout)]


def test_a_clock_that_jumps_by_an_hour_changes_nothing(lab: Lab, alone: Node, tmp_path: Path) -> None:
    """Forward and back, under the agent and its keeper: leases are counted on a clock that cannot be set."""
    before = _made(lab, "work")
    keeper = alone.keeper()
    assert keeper is not None
    alone.kill_agent()
    os.kill(keeper, signal.SIGKILL)
    clock = tmp_path / "clock"
    clock.write_text("+0")
    faketime = program("usr/bin/faketime", "faketime", "libfaketime")
    (library,) = faketime.parents[2].glob("usr/lib/*/faketime/libfaketime.so.1")
    alone.start(
        LD_PRELOAD=str(library),
        FAKETIME_TIMESTAMP_FILE=str(clock),
        FAKETIME_DONT_FAKE_MONOTONIC="1",
        FAKETIME_NO_CACHE="1",
        FAKETIME_DISABLE_SHM="1",
    )
    try:
        for jump in ("+3600", "-3600"):
            clock.write_text(jump)
            lab.until(lambda jump=jump: _is_ahead(alone, int(jump)), f"a renewal at {jump}")  # type: ignore[misc]
            number = lab.copied("work")
            with lab.client() as hf:
                hf.session("work").exec("COLOR=green; date >>/srv/times", timeout=60)
            lab.copied("work", after=number)
            assert alone.frozen() == []
        assert lab.store.session("work").epoch == before.epoch
        assert "recovered" not in _kinds(lab, before)
    finally:
        alone.kill_agent()
        alone.start()
    lab.until(lambda: _color(lab, alone, "work") == "green\n", "the session under the right time")
    _removed(lab, "work")


def _is_ahead(node: Node, seconds: int) -> bool:
    lease = node_lease.read_lease(node.machine.home)
    return lease is not None and abs(lease.contact - time.time() - seconds) < 600


def test_a_machine_that_was_stopped_and_continues_lets_go(lab: Lab, one: Node) -> None:
    """Everything on it is frozen at one moment, until another node has its session; then it continues, and
    removes what is no longer its own.
    """
    before = _made(lab, "work")
    with lab.client() as hf:
        hf.session("work").exec(COUNTS)
    lab.copied("work", after=lab.copied("work") + 1)
    one.pause()
    try:
        lab.until(lambda: _runs_on(lab, "work", "two"), "the takeover")
    finally:
        one.resume()
    lab.until(lambda: _names(one) == [], "the end of the stale one")
    found = lab.store.session("work")
    assert (found.node, found.epoch) == ("two", before.epoch + 1)
    assert _color(lab, lab.nodes["two"], "work") == "green\n"
    assert _kinds(lab, before).count("recovered") == 1
    _removed(lab, "work")


def test_an_upload_without_its_commit_counts_for_nothing(lab: Lab, one: Node) -> None:
    """The agent ends between the two: the session returns from the copy before."""
    before = _made(lab, "work")
    lab.copied("work", after=lab.copied("work"))
    with psycopg.connect(lab.postgres.dsn) as held:
        held.execute("LOCK TABLE holdfast_copies IN EXCLUSIVE MODE")  # commits wait, all else works
        number, uploads = lab.copied("work"), _tagged(lab)
        with lab.client() as hf:
            hf.session("work").exec("COLOR=blue", timeout=60)
        # One that was under way already is followed by one with that command.
        lab.until(lambda: _tagged(lab) > uploads + 1, "the upload of a copy that is not committed")
        one.kill_agent()
    lab.until(lambda: _runs_on(lab, "work", "two"), "the takeover")
    found = lab.store.session("work")
    assert (found.epoch, found.copy and found.copy.number) == (before.epoch + 1, number)
    assert _color(lab, lab.nodes["two"], "work") == "green\n"
    lab.copied("work", after=number)  # its next copies take the place of what was uploaded
    one.start()
    lab.until(lambda: _names(one) == [], "the end of the stale one")
    _removed(lab, "work")


def _tagged(lab: Lab) -> int:
    """Return how many copies were uploaded as a whole: the tag comes last."""
    found = lab.registry.requests()
    return len([each for each in found if each.startswith("PUT ") and "/manifests/" in each])


def test_a_session_that_no_node_has_room_for_waits(lab: Lab, one: Node) -> None:
    """With the reason of each node; it continues as soon as one has room."""
    rooms = {node.id: node.memory_bytes for node in lab.store.nodes() if node.state == "ready"}
    most = f"{(min(rooms.values()) >> 20) * 3 // 4}m"
    _made(lab, "large", memory=most)
    lab.lead_to(lab.nodes["two"])
    _made(lab, "big", memory=most)
    lab.store.drain("one")
    lab.until(lambda: lab.store.session("large").state == "waiting_for_node", "the wait")
    why = lab.store.session("large").reason
    assert re.search(r"two: has .* free, it needs", why), why
    _removed(lab, "big")
    lab.until(lambda: _runs_on(lab, "large", "two"), "the room")
    assert _color(lab, lab.nodes["two"], "large") == "green\n"
    lab.store.undrain("one")
    _removed(lab, "large")


def test_machines_are_upgraded_one_by_one_under_load(lab: Lab, one: Node, proxy: Nginx) -> None:
    """Drain, restart, take back, on each node: clients are asked to come again at most; nothing is lost."""
    _made(lab, "work")
    agent = Agent(lab, proxy.url)
    agent.start()
    lab.until(lambda: len(agent.results) > 3, f"the agent's loop: {agent.errors[-3:]}")
    for name, other in (("one", "two"), ("two", "one")):
        lab.store.drain(name)
        lab.until(lambda other=other: _runs_on(lab, "work", other), "the move")  # type: ignore[misc]
        lab.nodes[name].kill_agent()
        lab.nodes[name].start()
        lab.store.undrain(name)
        count = len(agent.results)
        lab.until(lambda count=count: len(agent.results) > count + 3, "commands")  # type: ignore[misc]
    agent.ends.set()
    agent.join(60)
    numbers = [number for _, number in agent.results]
    assert numbers == sorted(set(numbers)), "no state returns to an earlier one"
    assert numbers[-1] - numbers[0] < len(numbers) + len(agent.errors) + 1
    assert all(re.match(r"(SessionMoving|ServerUnavailable): ", each) for each in agent.errors), agent.errors
    _removed(lab, "work")


def test_all_sessions_of_a_lost_machine_return(lab: Lab, one: Node) -> None:
    """Several at the same time, each once, and no node above its memory. The machine is replaced."""
    names = [f"herd{number}" for number in range(6)]
    made = {name: _made(lab, name, memory="512m") for name in names}
    for name in names:
        lab.copied(name)
    one.lose()
    lab.until(lambda: all(_runs_on(lab, name, "two") for name in names), "all of them")
    for name in names:
        assert _color(lab, lab.nodes["two"], name) == "green\n"
        assert _kinds(lab, made[name]).count("recovered") == 1
        assert lab.store.session(name).epoch == made[name].epoch + 1
    assert all(node.reserved_bytes <= node.memory_bytes for node in lab.store.nodes())
