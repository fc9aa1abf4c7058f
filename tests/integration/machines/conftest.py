"""Machines with other engines, from releases of Debian, each with the stores of images that it has.

Needs root, `mmdebstrap`, `mkfs.btrfs` and `mkfs.xfs`. `make test-machines`: an hour, and some minutes more
when the systems are first made.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.machines import debian
from tests.machines.cells import EngineSpec
from tests.machines.engine_kinds import CONTAINERD
from tests.machines.engines import Engines
from tests.machines.second import Machine

from holdfast.runtime.api.controller import Holdfast

STORES = ("overlay2", CONTAINERD)


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    """Started when first used."""
    with Engines(debian.default_cache()) as made:
        yield made


@pytest.fixture
def machines(engines: Engines) -> dict[str, Machine]:
    """Docker 26 with either store."""
    specs = {store: EngineSpec(debian.SUITE, store) for store in STORES}
    engines.only(*specs.values())
    return {store: engines.get(spec) for store, spec in specs.items()}


@pytest.fixture(params=STORES)
def machine(request: pytest.FixtureRequest, machines: dict[str, Machine]) -> Machine:
    """One after the other."""
    return machines[str(request.param)]


@pytest.fixture
def there(machine: Machine) -> Iterator[Holdfast]:
    """A controller of the machine's home, which is left empty."""
    with machine.holdfast() as controller:
        yield controller
        for session in controller.sessions():
            session.remove()
        for snapshot in reversed(controller.snapshots()):
            snapshot.remove()
        assert not controller.engine.images.listed(holdfast_home=machine.home.digest)
