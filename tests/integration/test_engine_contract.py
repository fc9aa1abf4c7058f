"""The real engine does what tests expect of the fake one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.engine.contract import EngineContract

from holdfast.engine.engine import Engine
from holdfast.images import build


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    connected = Engine.connect()
    yield connected
    connected.close()


@pytest.fixture(scope="module")
def image(engine: Engine) -> str:
    return str(engine.images.id(build.ensure(engine.images, "session")))


class TestRealEngine(EngineContract):
    """The contract, with Docker."""
