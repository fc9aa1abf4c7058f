"""A user's steps on the newest engine that Debian has, with either store; and the refusal of an unfit one.

Three cells of the matrix that `make test-machines` runs. The engine is made first: a minute or two.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest
from tests.machines import debian, scenario, users
from tests.machines.cells import GROUP, NEWEST, ROOT, Cell, EngineSpec
from tests.machines.engine_kinds import CONTAINERD
from tests.machines.engines import Engines, shown
from tests.machines.installed import Place
from tests.machines.users import MachineUser

from holdfast.engine.image_store import ImageStore

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def suite() -> str:
    """The newest release that can be installed today: sid can be in the middle of a change."""
    try:
        debian.engine_root(debian.default_cache(), NEWEST.suite)
    except subprocess.CalledProcessError:
        debian.engine_root(debian.default_cache(), debian.SUITE)
        return debian.SUITE
    return NEWEST.suite


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    with Engines(debian.default_cache()) as made:
        yield made


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with Place() as made:
        yield made


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("store", "other", "user", "without"),
    [(CONTAINERD, "overlay2", GROUP, ()), ("overlay2", CONTAINERD, ROOT, ("OOM", "moved"))],
)
def test_the_newest_engine_does_every_step(
    suite: str,
    engines: Engines,
    place: Place,
    store: str,
    other: str,
    user: str,
    without: tuple[str, ...],
    tell: Callable[[str], None],
) -> None:
    """And nothing is left; an export from one continues on the other."""
    cell = Cell(EngineSpec(suite, store), user)
    machine, elsewhere = engines.get(cell.engine), engines.get(EngineSpec(suite, other))
    with users.of(user, machine, place) as here, users.of(ROOT, elsewhere, place) as there:
        steps = list(scenario.play(here, there, without))
    tell(shown(cell.engine, str(machine.engine.info()["ServerVersion"])))

    assert machine.engine.layers.store() is ImageStore(store)
    assert cell.wrong(steps, without) == []


def test_an_engine_that_remaps_users_is_refused(suite: str, engines: Engines) -> None:
    """By `doctor` and by `new`, before images are built: it has none."""
    cell = Cell(EngineSpec(suite, remapped=True))
    with MachineUser(engines.get(cell.engine)) as here:
        steps = list(scenario.play(here, here))

    assert cell.wrong(steps) == []
    assert "userns-remap" in steps[1].note
    assert "DOCKER_HOST" in steps[1].note
