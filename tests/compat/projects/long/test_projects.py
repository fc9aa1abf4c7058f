"""Every project: nothing differs in the captured run, nor in the copies that continued from it."""

import os
import secrets
from pathlib import Path

import pytest
from tests.compat.projects import catalog, running
from tests.compat.projects.project import Project

from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast

pytestmark = [pytest.mark.engine, pytest.mark.timeout(7200)]

SEED = int(os.environ.get("HOLDFAST_COMPAT_SEED") or secrets.randbelow(100_000))
SNAPSHOTS = int(os.environ.get("HOLDFAST_COMPAT_SNAPSHOTS") or running.SNAPSHOTS)


@pytest.mark.parametrize("project", catalog.PROJECTS, ids=lambda project: project.name)
def test_a_project_ends_the_same(project: Project, tmp_path: Path) -> None:
    """Case by case, byte by byte and by its exit code; and nothing is left of it."""
    with Holdfast(Home(tmp_path / "home")) as controller:
        [found] = running.run(controller, [project], seed=SEED, snapshots=SNAPSHOTS, say=print)
        assert controller.sessions() == []
        assert controller.snapshots() == []
    assert found.good, found
