"""The sessions' network is there once, whoever needs it first."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import uuid4

import pytest

from holdfast.runtime import networks
from holdfast.runtime.engine import Engine

pytestmark = pytest.mark.engine

AT_ONCE = 8


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine.connect()
    yield made
    made.close()


@pytest.fixture
def name(engine: Engine) -> Iterator[str]:
    """That of a network that is not there yet."""
    chosen = f"holdfast-test-{uuid4().hex[:8]}"
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
            return networks.ensure(with_own_connections, name)
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

    networks.ensure(engine, name)

    assert len(_of(engine, name)) == 1


def _of(engine: Engine, name: str) -> list[str]:
    return [str(each["Id"]) for each in engine.client.api.networks(names=[name])]
