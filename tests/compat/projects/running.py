"""Runs projects one after the other, and records the versions they were run on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tests.compat.projects.outcome import Outcome
from tests.compat.projects.project import Project
from tests.compat.projects.trial import AGAIN, Trial
from tests.compat.trials import Say, versions

if TYPE_CHECKING:
    from holdfast.runtime.api.controller import Holdfast

SNAPSHOTS = 3


def run(
    controller: Holdfast,
    chosen: Sequence[Project],
    *,
    seed: int,
    snapshots: int = SNAPSHOTS,
    say: Say,
    again: int = AGAIN,
    logs: Path | None = None,
) -> Iterator[Outcome]:
    """Try projects, and yield the row of each when it is known.

    `again` is how many more plain runs there are if something differs; `logs` a folder for the output of
    runs.
    """
    about = {"run on": datetime.now(UTC).date().isoformat(), **versions(controller)}
    for project in chosen:
        trial = Trial(controller, project, seed=seed, snapshots=snapshots, say=say, again=again, logs=logs)
        yield replace(trial.run(), about=about)
