"""Machines whose only way out is IPv6, engines and registries at IPv6 addresses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.conftest import Cli
from tests.machines.forwarding import listening, to_engine
from tests.machines.registry import Registry
from tests.machines.second import Machine

from holdfast.engine.engine import Engine
from holdfast.images import build
from holdfast.runtime.api.controller import Holdfast

HERE, GATEWAY = "2001:db8::2", "2001:db8::1"
# A network with a neighbor behind it; nothing answers there.
WAY_OUT = f"""
ip link add up0 type veth peer name up1
ip link set up0 up
ip link set up1 up
ip -6 address add {HERE}/64 dev up0 nodad
ip -6 route add default via {GATEWAY} dev up0
"""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    engine = Engine.connect()
    try:
        images = [build.ensure(engine.images, kind) for kind in build.ALWAYS]
        (tmp_path / "m").mkdir()
        with Machine(tmp_path / "m", images, of=engine) as made:
            done = made.run("sh", "-ec", WAY_OUT)
            assert done.returncode == 0, done.stderr
            yield made
    finally:
        engine.close()


def test_sessions_work_without_ipv4(machine: Machine) -> None:
    """The rules hold for the host's addresses, attempts end immediately, and copies have their loopback."""

    def does(*words: str) -> str:
        done = machine.cli(*words)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    found = {line["name"]: line for line in json.loads(does("doctor", "--json"))}
    assert found["network"]["ok"]
    assert "over IPv6 only" in found["network"]["detail"]
    does("new", "--name", "work")
    does("exec", "work", "python3 -m http.server --bind ::1 8000 >/dev/null 2>&1 &")
    for place in (f"[{HERE}]", "192.0.2.1"):
        assert machine.cli("exec", "work", f"curl -sS --max-time 20 http://{place}/").returncode == 7
    does("snapshot", "work", "--label", "kept")
    does("restore", "kept", "--name", "copy")
    says = "until curl -sf -o /dev/null 'http://[::1]:8000/'; do sleep 0.1; done; echo served"
    assert does("exec", "copy", says) == "served\n"


def test_an_engine_and_a_registry_at_ipv6_addresses(cli: Cli, hf: Holdfast, registry: Registry) -> None:
    """A live snapshot is pushed to [::1], and pulled again, by an engine at tcp://[::1]."""
    with listening(to_engine, "::1") as engine, listening(registry.connect, "::1") as port:
        place = f"[::1]:{port}/team/nearby:1"
        for words in (
            ["new", "--name", "work"],
            ["exec", "work", "kept=here"],
            ["snapshot", "work", "--label", "taken"],
            ["push", "taken", place],
            ["rmi", "taken"],
            ["pull", place, "--label", "again"],
            ["restore", "again", "--name", "copy"],
        ):
            done = cli(*words, DOCKER_HOST=f"tcp://[::1]:{engine}")
            assert done.code == 0, (words, done.err)
    assert cli("exec", "copy", "echo $kept").out == "here\n"
