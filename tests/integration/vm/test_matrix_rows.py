"""A user's steps on the kernels of three releases of Debian, with cgroup v2; rows of docs/machines.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.machines import debian, matrix_page, scenario, virtual
from tests.machines.cells import NEWEST, VIRTUAL, Cell, EngineSpec
from tests.machines.engines import Engines, shown, versions
from tests.machines.matrix_results import Row
from tests.machines.users import MachineUser
from tests.machines.virtual import VirtualMachine
from tests.machines.virtual_user import VirtualUser


@pytest.fixture(scope="module", params=VIRTUAL)
def suite(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def machine(
    suite: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VirtualMachine]:
    """A machine of this suite: the shared one, or one of its own."""
    if suite == debian.SUITE:
        yield request.getfixturevalue("booted")
        return
    with virtual.ours(tmp_path_factory.mktemp("vm"), suite) as started:
        yield started


def test_every_step_works_on_its_kernel(
    suite: str, machine: VirtualMachine, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """And nothing is left. An export from there is refused here: the emulated processor differs."""
    here = VirtualUser(machine, tmp_path)
    steps = []
    with Engines(debian.default_cache()) as engines, MachineUser(engines.get(NEWEST)) as elsewhere:
        for step in scenario.play(here, elsewhere):
            steps.append(step)
            tell(f"vm-{suite}: {step.verb}: {step.result} {step.note}".rstrip())
    found = versions(*here.described())
    spec = EngineSpec(suite)
    name = f"{shown(spec, found['engine'])}, kernel {found['kernel']}"
    matrix_page.record(Row(f"vm-{suite}", name, "root", found, tuple(steps)))

    assert found["cgroup"] == "2"
    assert Cell(spec).wrong(steps, refused=("moved",)) == []
    assert "this processor" in next(step.note for step in steps if step.verb == "moved")
