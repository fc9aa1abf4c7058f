"""Runs projects one after the other and says what they were run on."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tests.compat.outcome import Outcome
from tests.compat.project import Project
from tests.compat.trial import AGAIN, Say, Trial

from holdfast import __version__
from holdfast.snapshots import service

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
    """Try projects, and give the row of each when it is known.

    `again` is how many more plain runs there are if something differs; `logs` a folder for what runs print.
    """
    about = _about(controller)
    for project in chosen:
        trial = Trial(controller, project, seed=seed, snapshots=snapshots, say=say, again=again, logs=logs)
        yield replace(trial.run(), about=about)


def _about(controller: Holdfast) -> dict[str, str]:
    """What a result depends on, without names of machines."""
    with service.ask(controller.engine, controller.home, controller.context.progress, "hello") as link:
        told = link.until("done")
    return {
        "run on": datetime.now(UTC).date().isoformat(),
        "Holdfast": __version__,
        "CRIU": str(told.get("criu", "?")),
        "Linux": platform.release(),
    }
