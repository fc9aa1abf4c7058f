"""Machines with Docker 26, one for each image store that it has: Docker's own and that of containerd.

Needs root and `mmdebstrap`. `make test-machines`: a few minutes, and one more when the system is first made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.machines import debian
from tests.machines.second import Machine

from holdfast.engine.engine import Engine
from holdfast.images import build
from holdfast.runtime.api.controller import Holdfast

STORES = ("overlay2", "containerd")


@pytest.fixture(scope="session")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Machine]]:
    """Both at once, with the images of this machine's engine."""
    engine = Engine.connect()
    with ExitStack() as started:
        started.callback(engine.close)
        images = [build.ensure(engine.images, kind) for kind in build.ALWAYS]
        system = debian.engine_root(debian.default_cache())
        yield {
            store: started.enter_context(
                Machine(
                    # The path of a Unix socket has 108 bytes at most: no deep folder.
                    Path(tmp_path_factory.mktemp(store[0])),
                    images,
                    of=engine,
                    system=system,
                    containerd=store == "containerd",
                )
            )
            for store in STORES
        }


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
