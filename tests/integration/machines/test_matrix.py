"""A user's steps on every engine, store and kind of user; the table of docs/machines.md is their result.

`make test-machines CELL=NAME` runs one or some; `WRITE=1` writes results and table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.machines import matrix_page, scenario, users
from tests.machines.cells import CELLS, Cell
from tests.machines.engines import Engines, shown, versions
from tests.machines.installed import Place
from tests.machines.matrix_results import Row


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """Where the package is installed for ordinary users."""
    with Place() as made:
        yield made


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_every_cell_works_or_is_refused(
    engines: Engines, place: Place, cell: Cell, tell: Callable[[str], None]
) -> None:
    """And nothing is left."""
    engines.only(cell.engine, cell.other)
    machine = engines.get(cell.engine)
    other = engines.get(cell.other) if cell.engine.fit else machine
    steps = []
    with users.of(cell.user, machine, place) as here, users.of("root", other, place) as elsewhere:
        for step in scenario.play(here, elsewhere):
            steps.append(step)
            tell(f"{cell.name}: {step.verb}: {step.result} {step.note}".rstrip())
    found = versions(machine.engine.info(), machine.engine.version())
    matrix_page.record(Row(cell.name, shown(cell.engine, found["engine"]), cell.user, found, tuple(steps)))

    assert cell.wrong(steps) == []
