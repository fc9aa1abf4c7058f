"""The sessions' network is there once, whoever needs it first."""

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
    """That of a network that is not there yet, in the place of the one that sessions have."""
    chosen = f"holdfast-test-{uuid4().hex[:8]}"
    monkeypatch.setattr(networks, "NETWORK", chosen)
    yield chosen
    for network in _of(engine, chosen):
        engine.client.api.remove_network(network)


def test_a_network_that_many_make_at_once_is_there_once(engine: Engine, name: str) -> None:
    """Of two with one name the engine would use neither."""
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


def test_of_two_networks_one_remains(engine: Engine, name: str) -> None:
    """Where an engine has made two, the next session does not fail by it."""
    for _ in range(2):
        engine.client.api.create_network(name, driver="bridge", check_duplicate=False)
    assert len(_of(engine, name)) == 2

    networks.ensure(engine)

    assert len(_of(engine, name)) == 1


def test_in_a_network_of_another_kind_a_session_goes_back_to_another_address(
    engine: Engine, name: str, hf: Holdfast
) -> None:
    """The engine gives no address of choice in a network whose addresses it chose itself; and says so."""
    engine.client.api.create_network(name, driver="bridge")
    session = hf.new("work")
    taken = session.snapshot()
    session.exec("x=1")

    done = session.rewind(taken.name)

    assert "cannot be asked for in the network" in " ".join(done.deviations)
    assert session.exec("echo ${x-none}").text == "none\n"


def test_a_rewind_that_fails_in_such_a_network_leaves_the_session_as_it_was(
    engine: Engine, name: str, hf: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the network again."""
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
