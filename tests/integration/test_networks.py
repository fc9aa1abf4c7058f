"""The sessions' network exists once, whichever session needs it first."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any
from uuid import uuid4

import pytest

from holdfast.engine import networks
from holdfast.engine.engine import Engine
from holdfast.errors import EngineError
from holdfast.runtime.api.controller import Holdfast

AT_ONCE = 8


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine.connect()
    yield made
    made.close()


@pytest.fixture
def name(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give a network that does not exist yet, in place of the sessions' network."""
    chosen = f"holdfast-test-{uuid4().hex[:8]}"
    monkeypatch.setattr(networks, "NETWORK", chosen)
    yield chosen
    for network in _of(engine, chosen):
        engine.client.api.remove_network(network)


def test_a_network_made_concurrently_exists_once(engine: Engine, name: str) -> None:
    """The engine would use neither of two with one name."""
    together = Barrier(AT_ONCE)

    def ensure(_: int) -> str:
        with_own_connections = Engine.connect()
        together.wait()
        try:
            return networks.ensure(with_own_connections)
        finally:
            with_own_connections.close()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = set(pool.map(ensure, range(AT_ONCE)))

    assert found == {name}
    assert len(_of(engine, name)) == 1


def test_one_of_two_networks_remains(engine: Engine, name: str) -> None:
    """Where an engine has made two, the next session does not fail."""
    for _ in range(2):
        engine.client.api.create_network(name, driver="bridge", check_duplicate=False)
    assert len(_of(engine, name)) == 2

    networks.ensure(engine)

    assert len(_of(engine, name)) == 1


def test_a_rewind_in_a_different_kind_of_network_changes_the_address(
    engine: Engine, name: str, hf: Holdfast
) -> None:
    """The engine assigns no chosen address in a network whose addresses it chose itself; and says so."""
    engine.client.api.create_network(name, driver="bridge")
    session = hf.new("work")
    taken = session.snapshot()
    session.exec("x=1")

    done = session.rewind(taken.name)

    assert "cannot be requested in the network" in " ".join(done.deviations)
    assert session.exec("echo ${x-none}").text == "none\n"


def test_a_failed_rewind_in_such_a_network_changes_nothing(
    engine: Engine, name: str, hf: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session is in the network again."""
    engine.client.api.create_network(name, driver="bridge")
    session = hf.new("work")
    taken = session.snapshot()
    session.exec("x=1")

    def fail(*_: Any) -> None:
        raise EngineError("cannot start container")

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "start", fail)
        with pytest.raises(EngineError):
            session.rewind(taken.name)

    assert session.exec("echo $x; ip -4 -o addr | grep -vc ' lo '").text == "1\n1\n"


def _of(engine: Engine, name: str) -> list[str]:
    return [str(each["Id"]) for each in engine.client.api.networks(names=[name])]
