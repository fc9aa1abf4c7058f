"""The plan of the interrupted job: phases and steps, and their commands in the session.  Pure.

`tests/inside/refactoring.py` does the steps. Nothing here runs anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

PROGRAM = "/workspace/refactoring.py"
STEPS = "/workspace/steps.json"
REQUIREMENT = "sqlparse==0.5.3"
_RUN = f"python3 {PROGRAM}"

Phases = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
"""Titles of phases, each with the titles of its steps, and what the program calls them."""

LONG: Phases = (
    (
        "Prepare",
        (
            ("Fetch the project", "fetch"),
            ("Make an environment for its tests", "environment"),
            ("Make the database and start its server", "database"),
        ),
    ),
    ("Rename", (("Rename the module of helpers", "rename_module"), ("Rename functions", "rename_functions"))),
    (
        "Migrate",
        (
            ("Fill the database", "fill"),
            ("Add the new column", "widen"),
            ("Convert the values", "convert"),
            ("Switch the server to the new form", "switch"),
        ),
    ),
    ("Split", (("Move functions to a module", "move_functions"), ("Annotate all modules", "annotate"))),
    ("Deliver", (("List the changes", "changelog"), ("Pack the source", "archive"))),
)
SHORT: Phases = (
    ("Prepare", (("Write the project", "fetch"), ("Start the server of the database", "database"))),
    ("Rename", (("Rename the module of helpers", "rename_module"),)),
    (
        "Migrate",
        (("Fill the database", "fill"), ("Add the new column", "widen"), ("Convert the values", "convert")),
    ),
    ("Split", (("Move functions to a module", "move_functions"),)),
    ("Deliver", (("Pack the source", "archive"),)),
)


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step: its number in the plan, the program's name for it, its commands.

    `checkpoint`: the worker takes one after it. `decision` is locked with it, `artifact` registered.
    """

    number: str
    title: str
    step: str
    run: str
    verify: str
    checkpoint: bool
    decision: str | None = None
    artifact: tuple[str, str] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the worker's input in the session."""
        return {
            "step": self.step,
            "run": self.run,
            "checkpoint": self.checkpoint,
            "decision": self.decision,
            "artifact": self.artifact,
        }


def planned(phases: Phases, *, checkpoints: str) -> list[PlannedStep]:
    """Return the steps in their order; `checkpoints` are taken after each `step` or `phase`."""
    return list(_steps(phases, every_step=checkpoints == "step"))


def as_text(phases: Phases) -> str:
    """Return the plan as `task plan` takes it."""
    lines: list[str] = []
    steps = {step.number: step for step in planned(phases, checkpoints="step")}
    for major, (phase, titles) in enumerate(phases, start=1):
        lines.append(phase)
        for minor, (title, _) in enumerate(titles, start=1):
            lines.append(f"- {title} :: {steps[f'{major}.{minor}'].verify}")
    return "\n".join(lines) + "\n"


def _steps(phases: Phases, *, every_step: bool) -> Iterator[PlannedStep]:
    for major, (_, titles) in enumerate(phases, start=1):
        for minor, (title, name) in enumerate(titles, start=1):
            number = f"{major}.{minor}"
            begun = f"({_RUN} serve </dev/null >/dev/null 2>&1 &); " if name == "database" else ""
            yield PlannedStep(
                number=number,
                title=title,
                step=name,
                run=f'{begun}{_RUN} do {number} && did="$did {number}"',
                verify=f"{_RUN} check {number}",
                checkpoint=every_step or minor == len(titles),
                decision=f"{title}: once" if name in ("convert", "rename_module") else None,
                artifact=("source", "/workspace/job/source.tar") if name == "archive" else None,
            )
