"""Three real projects are handed over at random moments to processes that are given the handoff alone.

`HOLDFAST_INTERRUPTION_SEED` draws other moments; `WRITE=1` writes the figures into docs/task.md.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.interrupted.handover import Handover
from tests.interrupted.happenings import hands
from tests.interrupted.real_projects import PROJECTS, RealProject

from holdfast.runtime.api.controller import Holdfast

SEED = int(os.environ.get("HOLDFAST_INTERRUPTION_SEED", "1"))
PAGE = Path(__file__).parents[3] / "docs" / "task.md"


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_a_successor_chooses_the_right_action_from_the_handoff_alone(
    project: RealProject, hf: Holdfast, tell: Callable[[str], None]
) -> None:
    """At each moment, whatever happened; nothing of the work is there twice or missing at the end."""
    work = Handover(hf, project, random.Random(f"{SEED} {project.name}"))
    work.begin()
    work.play(hands(SEED, len(PROJECTS))[PROJECTS.index(project)])
    tell(f"seed {SEED}, {project.name}: {len(work.moments)} moments, {_counted(work)}")
    assert [each for each in work.moments if not each.good] == []
    assert work.wrong() == []
    if os.environ.get("HOLDFAST_WRITE"):
        _write(project.name, work)


def _counted(work: Handover) -> str:
    counts = Counter(each.event for each in work.moments)
    return ", ".join(f"{count} × {event}" if count > 1 else event for event, count in sorted(counts.items()))


def _write(name: str, work: Handover) -> None:
    good = sum(each.good for each in work.moments)
    row = f"| {name} | {len(work.moments)} | {good} | {len(work.wrong())} | {_counted(work)} |"
    lines = [line for line in PAGE.read_text().splitlines() if not line.startswith(f"| {name} |")]
    place = lines.index("<!-- end of the handovers -->")
    PAGE.write_text("\n".join([*lines[:place], row, *lines[place:]]) + "\n")
